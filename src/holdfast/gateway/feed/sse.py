"""Server-sent events, and the long poll for clients that cannot stream.

Promises: the same frames, buffers and parking as by WebSocket. `id:` is the position of a frame, so a browser
resumes with `Last-Event-ID`. A stream has one cursor for all its topics: one position says what was received.
A reset ends the stream.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from holdfast.core.access import Denied
from holdfast.core.channel import Channel, parse_channel
from holdfast.core.check import check_choice, check_page
from holdfast.core.event_kinds import EventClass
from holdfast.core.event_query import event_query
from holdfast.core.subscription import StreamFilter, StreamReset
from holdfast.core.wire import parse_position
from holdfast.errors import FeedReset, InvalidInput
from holdfast.gateway.feed.connection import SSE, Connection, filter_for, find_targets
from holdfast.gateway.feed.feed import LiveFeed
from holdfast.gateway.feed.frames import as_server_sent_event
from holdfast.gateway.feed.lanes import Matcher
from holdfast.gateway.feed.outlets import QueueOutlet
from holdfast.gateway.feed.ports import Session
from holdfast.gateway.feed.reading import next_page
from holdfast.gateway.feed.requests import KINDS_MAX
from holdfast.gateway.feed.subscribing import NOW, Wish, start_offset, subscribe

HEARTBEAT_SECONDS: Final = 15.0
RETRY_MS: Final = 2_000
TOPICS_MAX: Final = 50
WAIT_SECONDS_MAX: Final = 30.0
STREAM_ID: Final = "stream"
HEADERS: Final = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-store",
    "x-accel-buffering": "no",
}


class StreamFull(Exception):
    """No further connection is accepted now."""


async def open_stream(feed: LiveFeed, request: Request, session: Session) -> Response | Denied:
    """`GET /api/v1/stream`. Returns the response, or why it is denied. Raises InvalidInput and StreamFull.
    Closes the session when the stream ends or does not start."""
    try:
        if feed.is_full():
            raise StreamFull
        wish = wish_of(request)
    except BaseException:
        session.close()
        raise
    outlet = QueueOutlet(feed.flow)
    connection = Connection(
        feed.broadcaster,
        feed.directory,
        session,
        outlet,
        wrap=as_server_sent_event,
        transport=SSE,
        bounds=feed.flow,
    )
    outlet.on_full, outlet.on_drained = connection.full, connection.drained
    connection.open()
    try:
        denied = await subscribe(connection, wish)
    except BaseException:
        await connection.shut()
        raise
    if denied is not None:
        await connection.shut()
        return denied
    return EventStream(connection, outlet)


class EventStream(Response):
    """The response of a stream."""

    def __init__(self, connection: Connection, outlet: QueueOutlet) -> None:
        super().__init__(headers=HEADERS)
        del self.headers["content-length"]
        self._connection = connection
        self._outlet = outlet

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        del scope
        tasks = [
            asyncio.create_task(self._write_on(send)),
            asyncio.create_task(_disconnected(receive)),
        ]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._connection.shut()

    async def _write_on(self, send: Send) -> None:
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        await send(start)
        await _send(send, b"retry: %d\n\n" % RETRY_MS)
        clock = self._connection.broadcaster.clock
        while (parts := await self._outlet.take(clock, HEARTBEAT_SECONDS)) is not None:
            await _send(send, b"".join(parts) if parts else b": hb\n\n")
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _send(send: Send, data: bytes) -> None:
    await send({"type": "http.response.body", "body": data, "more_body": True})


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _channels(request: Request) -> tuple[Channel, ...]:
    names = [name for name in request.query_params.get("topics", "").split(",") if name]
    if not 0 < len(names) <= TOPICS_MAX:
        raise InvalidInput(
            f"topics has {len(names)} channels: give 1 to {TOPICS_MAX}, with commas between"
        )
    return tuple(parse_channel(name) for name in names)


def _list(request: Request, name: str) -> list[str]:
    return [part for part in request.query_params.get(name, "").split(",") if part]


def _classes(request: Request) -> frozenset[EventClass]:
    return frozenset(
        check_choice("classes", name, EventClass) for name in _list(request, "classes")
    )


def _kinds(request: Request) -> tuple[str, ...]:
    kinds = _list(request, "kinds")
    if len(kinds) > KINDS_MAX:
        raise InvalidInput(f"kinds has more than {KINDS_MAX} globs")
    return tuple(sorted(set(kinds)))


def _flag(request: Request, name: str) -> bool | None:
    match request.query_params.get(name):
        case None | "":
            return None
        case "true" | "1":
            return True
        case "false" | "0":
            return False
        case other:
            raise InvalidInput(f"{name} is '{other}': use true or false")


def wish_of(request: Request) -> Wish:
    position = request.headers.get("last-event-id") or request.query_params.get("after") or None
    snapshot = _flag(request, "snapshot")
    if "last-event-id" in request.headers:
        # A browser repeats the first URL: its snapshot has been read.
        snapshot = False
    text = request.query_params.get("query")
    return Wish(
        channels=_channels(request),
        id=STREAM_ID,
        shown=request.query_params["topics"],
        query=None if text is None else event_query(text),
        position=position,
        snapshot=position is None if snapshot is None else snapshot,
        kinds=_kinds(request),
        classes=_classes(request),
    )


async def poll_events(
    feed: LiveFeed, request: Request, session: Session
) -> dict[str, Any] | Denied:
    """`GET /api/v1/events`: the events after a position, or after `wait_seconds` none. Raises InvalidInput,
    FeedReset and StoreUnavailable. The caller closes the session."""
    broadcaster = feed.broadcaster
    targets = await find_targets(feed.directory, session.principal, _channels(request))
    if isinstance(targets, Denied):
        return targets
    like = StreamFilter(frozenset(), None, _kinds(request), _classes(request))
    matches = Matcher(filter_for(session.principal, targets, like)).matches
    text = request.query_params.get("after")
    after = None if text in (None, "", NOW) else parse_position("after", text)
    limit = check_page(number_of(request, "limit", 100))
    deadline = broadcaster.clock.monotonic() + min(
        number_of(request, "wait_seconds", 0), WAIT_SECONDS_MAX
    )
    read, items = await start_offset(broadcaster, after), []
    epoch = broadcaster.epoch
    while not isinstance(read, StreamReset) and epoch == broadcaster.epoch:
        if read < broadcaster.head:
            answer = await next_page(broadcaster, read, None)
            if isinstance(answer, StreamReset):
                read = answer
                break
            entries, through = answer
            items = [entry for entry in entries if matches(entry)]
            read = through if len(items) <= limit else items[limit - 1].offset
        left = deadline - broadcaster.clock.monotonic()
        if items or (read >= broadcaster.head and left <= 0.0):
            frames = [item.public(epoch) for item in items[:limit]]
            return {"items": frames, "next": f"{epoch}:{read}"}
        if read >= broadcaster.head:
            broadcaster.polls += 1
            try:
                await broadcaster.advanced(left)
            finally:
                broadcaster.polls -= 1
    reason = read if isinstance(read, StreamReset) else StreamReset.EPOCH
    raise FeedReset(reason.value, str(broadcaster.bounds.oldest), str(broadcaster.bounds.head))


def number_of(request: Request, name: str, default: int) -> int:
    text = request.query_params.get(name, "")
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise InvalidInput(f"{name} is '{text[:20]}': give a whole number")
    return int(text)
