"""Watches the live feed by WebSocket.

Promises: the events of a channel come in order, each once, over any number of disconnections and at any
gateway. A reset is shown as an item: read the state again. Never: gives up while the credential is good.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any, Final

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException

from holdfast.client.http import Http
from holdfast.client.problems import problem
from holdfast.core.watching import (
    CloseAction,
    Watching,
    WatchStep,
    after_close,
    backoff_seconds,
    connected,
    received,
    subscribe_frame,
)
from holdfast.errors import Conflict

SUBPROTOCOL: Final = "holdfast.v1"
FRAME_BYTES_MAX: Final = 16 * 1024 * 1024
GOOD_FRAMES: Final = 1
"""After this many frames a connection counts as good, and the next pause is short again."""


class WatchItem(msgspec.Struct, frozen=True):
    """What a watcher sees: an event, a part of a snapshot, or a reset."""

    type: str
    """The frame name, e.g. `task.status_changed`; `snapshot` or `reset`."""
    position: str | None
    """Watch again from here to continue after this item."""
    frame: dict[str, Any]

    @property
    def kind(self) -> str:
        """The kind of the event, e.g. `task.started`."""
        return str(self.frame.get("kind", ""))

    @property
    def payload(self) -> Any:
        return self.frame.get("payload")


class _Ended(Exception):
    """A connection ended."""

    def __init__(self, code: int | None, reason: str, retry_after_ms: object = None) -> None:
        super().__init__(reason)
        self.code = code
        self.retry_after_ms = retry_after_ms


class Watch:
    """One subscription. Iterate it; `state` has the position to continue from."""

    def __init__(
        self,
        http: Http,
        channel: str,
        *,
        position: str | None = None,
        snapshot: bool = True,
        kinds: tuple[str, ...] = (),
    ) -> None:
        self._http = http
        self._channel = channel
        self._snapshot = snapshot
        self._kinds = kinds
        self.state = Watching(position)
        self.connections = 0

    async def __aiter__(self) -> AsyncIterator[WatchItem]:
        failures = 0
        while True:
            try:
                async for item in self._session():
                    failures = 0
                    yield item
            except _Ended as ended:
                action = after_close(ended.code)
                if action is CloseAction.LOG_IN:
                    raise problem(401, {"code": "unauthenticated", "detail": str(ended)}) from None
                if action is CloseAction.GIVE_UP:
                    raise Conflict(f"the gateway closed the feed ({ended.code}): {ended}") from None
                pause = backoff_seconds(
                    failures, self._http.ids.random_unit(), ended.retry_after_ms
                )
                failures += 1
                self._http.next_gateway()
                await self._http.clock.sleep(pause)

    async def _session(self) -> AsyncIterator[WatchItem]:
        """The items of one connection. Raises _Ended when it is over."""
        async with AsyncExitStack() as stack:
            connection = await self._connect(stack)
            self.state = connected(self.state)
            frame = subscribe_frame(
                self.state, self._channel, snapshot=self._snapshot, kinds=self._kinds
            )
            await self._send(connection, frame)
            bye: dict[str, Any] = {}
            while True:
                message = await self._receive(connection, bye)
                kind = message.get("type")
                if kind == "bye":
                    bye = message
                if kind == "error" and not message.get("retryable"):
                    raise problem(int(message.get("status", 422)), message)
                self.state, step = received(self.state, message)
                if step is WatchStep.RECONNECT:
                    raise _Ended(None, "a frame is missing")
                if step is WatchStep.NOTHING:
                    continue
                yield WatchItem(str(kind), message.get("position"), message)
                if step is WatchStep.START_OVER:
                    self._snapshot = True
                    raise _Ended(None, "the feed starts over", 0)

    async def _connect(self, stack: AsyncExitStack) -> ClientConnection:
        url = self._http.url
        address = "ws" + url.removeprefix("http") + "/api/v1/ws"
        try:
            connection = await stack.enter_async_context(
                connect(
                    address,
                    additional_headers=self._http.headers(),
                    subprotocols=[SUBPROTOCOL],  # type: ignore[list-item]
                    max_size=FRAME_BYTES_MAX,
                    compression=None,
                    ping_interval=20,
                    ping_timeout=20,
                    proxy=None,
                )
            )
        except InvalidStatus as error:
            status = error.response.status_code
            code = {401: 4401, 403: 4403}.get(status)
            raise _Ended(code, f"the gateway refused the connection: {status}") from None
        except (OSError, WebSocketException, TimeoutError) as error:
            raise _Ended(None, f"no connection: {error!r}") from None
        self.connections += 1
        return connection

    async def _send(self, connection: ClientConnection, frame: dict[str, Any]) -> None:
        try:
            await connection.send(msgspec.json.encode(frame).decode())
        except ConnectionClosed as error:
            raise _ended(error, {}) from None

    async def _receive(self, connection: ClientConnection, bye: dict[str, Any]) -> dict[str, Any]:
        try:
            message: dict[str, Any] = msgspec.json.decode(await connection.recv())
        except ConnectionClosed as error:
            raise _ended(error, bye) from None
        except msgspec.DecodeError:
            raise _Ended(None, "a frame is not JSON") from None
        return message


def _ended(error: ConnectionClosed, bye: dict[str, Any]) -> _Ended:
    close = error.rcvd
    code = close.code if close is not None else None
    reason = str(bye.get("reason") or (close.reason if close is not None else "") or "closed")
    return _Ended(code, reason, bye.get("retry_after_ms"))
