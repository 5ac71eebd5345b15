"""Server-sent events.

Promises: the same frames, buffers and parking as by WebSocket. `id:` is the position of a frame, so a browser
resumes with `Last-Event-ID`. A stream has one cursor for all its topics: one position says what was received.
A reset ends the stream.
"""

from __future__ import annotations

import asyncio
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from holdfast.core.access import Denied
from holdfast.core.channel import Channel, parse_channel
from holdfast.core.check import check_choice, shown
from holdfast.core.event_kinds import EventClass
from holdfast.core.event_query import event_query
from holdfast.errors import InvalidInput
from holdfast.gateway.feed.connection import SSE, Connection
from holdfast.gateway.feed.feed import LiveFeed
from holdfast.gateway.feed.frames import as_server_sent_event
from holdfast.gateway.feed.outlets import QueueOutlet
from holdfast.gateway.feed.ports import TICKET, Session
from holdfast.gateway.feed.requests import KINDS_MAX
from holdfast.gateway.feed.subscribing import Wish, subscribe

HEARTBEAT_SECONDS: Final = 15.0
RETRY_MS: Final = 2_000
TOPICS_MAX: Final = 50
STREAM_ID: Final = "stream"
TOPIC: Final = "topic"
"""The parameter that may be given several times."""
PARAMETERS: Final = frozenset(
    {"topics", TOPIC, "query", "after", "kinds", "classes", "snapshot", TICKET}
)
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
    connection, outlet = feed.queued(session, as_server_sent_event, SSE)
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
    names = _names(request)
    if not 0 < len(names) <= TOPICS_MAX:
        raise InvalidInput(
            f"topics has {len(names)} channels: give 1 to {TOPICS_MAX}, with commas between or each as topic="
        )
    return tuple(parse_channel(name) for name in names)


def _names(request: Request) -> list[str]:
    """The names of `topics`, with commas between, then each `topic`. Only there a name may have a comma."""
    return _list(request, "topics") + [name for name in request.query_params.getlist(TOPIC) if name]


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


def check_parameters(request: Request, known: frozenset[str]) -> None:
    """InvalidInput for a parameter that is not known, or that is given twice: a misspelt `after` must not
    show another stream."""
    given = [name for name, _ in request.query_params.multi_items()]
    for name in given:
        if name not in known:
            raise InvalidInput(
                f"there is no parameter {shown(name)}: use {', '.join(sorted(known - {TICKET}))}"
            )
        if name != TOPIC and given.count(name) > 1:
            raise InvalidInput(f"the parameter '{name}' is given twice: give it once")


def wish_of(request: Request, also: frozenset[str] = frozenset()) -> Wish:
    """What the parameters ask for. `also`: those that the caller reads itself."""
    check_parameters(request, PARAMETERS | also)
    position = request.headers.get("last-event-id") or request.query_params.get("after") or None
    snapshot = _flag(request, "snapshot")
    if "last-event-id" in request.headers:
        # A browser repeats the first URL: its snapshot has been read.
        snapshot = False
    text = request.query_params.get("query")
    return Wish(
        channels=_channels(request),
        id=STREAM_ID,
        shown=",".join(_names(request)),
        query=None if text is None else event_query(text),
        position=position,
        snapshot=position is None if snapshot is None else snapshot,
        kinds=_kinds(request),
        classes=_classes(request),
    )
