"""The WebSocket `holdfast.v1`.

Promises: a frame that is refused gets an `error` frame and the connection stays. What is not a frame closes
with 4400, a frame that is too large with 4413, too many frames with 4429. One client's fault changes nothing
for another.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final

from msgspec import UNSET
from starlette.responses import PlainTextResponse
from starlette.websockets import WebSocket, WebSocketDisconnect

from holdfast.core import close_codes
from holdfast.core.access import DenialReason, Denied, Principal
from holdfast.core.channel import Channel, parse_channel
from holdfast.core.check import check_id
from holdfast.core.errors import Forbidden, RateLimited, Unauthenticated
from holdfast.core.event_query import event_query
from holdfast.core.redaction import DEFAULT
from holdfast.core.subscription import (
    MERGE_SECONDS,
    MERGE_SECONDS_LEAST,
    MERGE_SECONDS_MOST,
)
from holdfast.errors import HoldfastError, InvalidInput
from holdfast.gateway.feed import requests
from holdfast.gateway.feed.connection import WS, Connection
from holdfast.gateway.feed.feed import SUBSCRIPTIONS_MAX, LiveFeed
from holdfast.gateway.feed.frames import as_message, as_text_frame, encode, wrapped
from holdfast.gateway.feed.outlets import QueueOutlet
from holdfast.gateway.feed.ports import Session
from holdfast.gateway.feed.protocol import EXTENSION, DirectOutlet
from holdfast.gateway.feed.rate import Bucket
from holdfast.gateway.feed.server_frames import (
    Authenticated,
    Bye,
    Error,
    Pong,
    ServerFrame,
    Unsubscribed,
)
from holdfast.gateway.feed.subscribing import QUERY_ID, Wish, project_channels, subscribe
from holdfast.gateway.shown import shown_detail

SUBPROTOCOL: Final = "holdfast.v1"
log = logging.getLogger("holdfast.feed")


async def serve_websocket(feed: LiveFeed, websocket: WebSocket) -> None:
    """Serves one connection until it ends."""
    if SUBPROTOCOL not in websocket.scope.get("subprotocols", ()):
        await websocket.send_denial_response(
            PlainTextResponse(
                f"this endpoint speaks the subprotocol {SUBPROTOCOL}", status_code=400
            )
        )
        return
    try:
        session = await feed.door.connect(websocket)
    except (Unauthenticated, Forbidden, RateLimited) as error:
        await websocket.accept(subprotocol=SUBPROTOCOL)
        await _say_bye(websocket, close_codes.of_error(error.code), error.code)
        return
    await websocket.accept(subprotocol=SUBPROTOCOL)
    if feed.is_full():
        session.close()
        await _say_bye(websocket, close_codes.TRY_AGAIN_LATER, "try again later")
    else:
        await _Client(feed, websocket, session).serve()


async def _say_bye(websocket: WebSocket, code: int, reason: str) -> None:
    try:
        await websocket.send_text(encode(Bye(reason=reason, code=code)).decode())
        await websocket.close(code, reason)
    except WebSocketDisconnect:
        log.debug("a refused client has gone before its answer")


class _Client:
    """One accepted connection."""

    def __init__(self, feed: LiveFeed, websocket: WebSocket, session: Session) -> None:
        self._feed = feed
        self._websocket = websocket
        self._bucket = Bucket(feed.broadcaster.clock.monotonic())
        self._writer: asyncio.Task[None] | None = None
        self._connection = self._connect(feed, session)

    def _connect(self, feed: LiveFeed, session: Session) -> Connection:
        direct = self._websocket.scope.get("extensions", {}).get(EXTENSION)
        if direct is None:
            connection, queued = feed.queued(session, as_message, WS)
            self._writer = asyncio.create_task(self._write_on(queued))
            return connection
        outlet = DirectOutlet(direct["protocol"], feed.flow)
        connection = Connection(
            feed.broadcaster,
            feed.directory,
            session,
            outlet,
            wrap=as_text_frame,
            transport=WS,
            bounds=feed.flow,
        )
        outlet.attach(
            on_full=connection.full, on_drained=connection.drained, on_lost=connection.lost
        )
        return connection

    async def serve(self) -> None:
        connection = self._connection
        connection.open()
        try:
            self._write(self._feed.hello(connection.session))
            while True:
                message = await self._websocket.receive()
                if message["type"] == "websocket.disconnect":
                    break
                if not connection.is_closed:
                    await self._receive(message)
        finally:
            await connection.shut()
            if self._writer is not None:
                self._writer.cancel()
                await asyncio.gather(self._writer, return_exceptions=True)

    async def _write_on(self, outlet: QueueOutlet) -> None:
        """Writes what is queued, one message for each line."""
        clock = self._feed.broadcaster.clock
        while (parts := await outlet.take(clock, 60.0)) is not None:
            for message in b"".join(parts).split(b"\n"):
                if message:
                    await self._websocket.send_text(message.decode())
        code, reason = outlet.closed or (close_codes.NORMAL, "")
        await self._websocket.close(code, reason)

    # -- frames of the client ----------------------------------------------------------------------

    async def _receive(self, message: Any) -> None:
        connection = self._connection
        if not self._bucket.take(self._feed.broadcaster.clock.monotonic()):
            connection.close(close_codes.TOO_MANY, "too many frames", retry_after_ms=1000)
            return
        text = message.get("text")
        if text is None:
            connection.close(close_codes.MALFORMED, "a frame is text")
            return
        if len(text) > self._feed.frame_bytes:
            connection.close(close_codes.TOO_LARGE, "the frame is too large")
            return
        name: str | None = None
        try:
            request = requests.parse(text)
            name = getattr(request, "id", None) or getattr(request, "channel", None)
            await self._answer(request)
        except requests.NotAFrame as error:
            connection.close(close_codes.MALFORMED, DEFAULT.text(str(error))[:100])
        except HoldfastError as error:
            self._refuse(name, error)
        except Exception:
            log.exception("a frame of a client failed")
            connection.close(close_codes.INTERNAL, "internal error")

    async def _answer(self, request: requests.Request) -> None:
        connection = self._connection
        match request:
            case requests.Ping(n):
                self._write(Pong(n=n, head=str(connection.broadcaster.bounds.head)))
            case requests.Subscribe():
                await self._subscribe(request)
            case requests.Unsubscribe(id):
                subscription = connection.subscriptions.get(id)
                if subscription is None:
                    raise InvalidInput(f"id '{id}' is not a subscription of this connection")
                connection.end(subscription)
                self._write(Unsubscribed(id=id))
            case requests.Auth(token):
                await self._authenticate(token)

    async def _subscribe(self, request: requests.Subscribe) -> None:
        connection = self._connection
        wish = wish_of(request, connection.session.principal)
        if wish.id in connection.subscriptions:
            raise InvalidInput(f"id '{wish.id}' is a subscription already: unsubscribe it first")
        if len(connection.subscriptions) >= SUBSCRIPTIONS_MAX:
            detail = f"a connection has at most {SUBSCRIPTIONS_MAX} subscriptions: open another one"
            self._write_error(wish.id, "rate-limited", detail, retryable=True)
            return
        denied = await subscribe(connection, wish)
        if denied is not None:
            detail = denied_detail(denied, wish.shown)
            self._write_error(wish.id, denied.code, detail, retryable=False)
        connection.broadcaster.park_full()

    async def _authenticate(self, token: str) -> None:
        connection = self._connection
        try:
            session = await self._feed.door.by_token(token)
        except (Unauthenticated, RateLimited):
            connection.close(close_codes.UNAUTHENTICATED, "unauthenticated")
            return
        if session.principal.name != connection.session.principal.name:
            session.close()
            connection.close(close_codes.UNAUTHENTICATED, "the token is of another principal")
        else:
            connection.session.close()
            connection.session = session
            connection.recheck()
            self._write(Authenticated(principal=session.principal.name))

    def _write(self, frame: ServerFrame) -> None:
        connection = self._connection
        if not connection.is_closed:
            connection.outlet.write(wrapped(connection.wrap, frame))

    def _refuse(self, name: str | None, error: HoldfastError) -> None:
        self._write_error(name, error.code, shown_detail(error), retryable=error.retryable)

    def _write_error(self, name: str | None, code: str, detail: str, *, retryable: bool) -> None:
        id = UNSET if name is None else name
        self._write(Error(id=id, code=code, detail=detail, retryable=retryable))


def denied_detail(denied: Denied, channel: str) -> str:
    """The text of a refusal. A foreign object is answered like one that does not exist."""
    if denied.reason is DenialReason.PROJECT:
        return f"there is nothing to read at {channel}: check the name"
    return denied.message


def wish_of(request: requests.Subscribe, principal: Principal) -> Wish:
    """What a `subscribe` frame asks for. Raises InvalidInput."""
    query = None if request.query is None else event_query(request.query)
    shown = QUERY_ID if request.channel is None else request.channel
    if request.channel is not None:
        channels: tuple[Channel, ...] = (parse_channel(request.channel),)
    elif query is not None:
        channels = project_channels(principal)
    else:
        raise InvalidInput("the frame has neither channel nor query: name one of them")
    if len(request.kinds) > requests.KINDS_MAX:
        raise InvalidInput(f"kinds has more than {requests.KINDS_MAX} globs")
    seconds = MERGE_SECONDS
    if request.max_delay_ms is not None:
        seconds = request.max_delay_ms / 1000
        if not MERGE_SECONDS_LEAST <= seconds <= MERGE_SECONDS_MOST:
            raise InvalidInput(f"max_delay_ms is {request.max_delay_ms}: use 50 to 5000")
    return Wish(
        channels=channels,
        id=shown if request.id is None else check_id("id", request.id),
        shown=shown,
        position=request.position,
        snapshot=_has_snapshot(request),
        kinds=tuple(sorted(set(request.kinds))),
        classes=frozenset(request.classes),
        merge_seconds=seconds,
        query=query,
    )


def _has_snapshot(request: requests.Subscribe) -> bool:
    if request.snapshot is None:
        return request.position is None and request.query is None
    return request.snapshot
