"""Watches the live feed by WebSocket, as server-sent events where no WebSocket passes, else by long poll.

Promises: the events of a channel come in order, each once, over any number of disconnections and at any
gateway. `position` moves when the next item is asked for, so a caller that saves it after each item and
watches from there again misses nothing. A reset is shown or raised: the state must be read again.
Never: gives up while the credential is good.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from types import TracebackType
from typing import Any, Final, Literal, NoReturn, Protocol, Self

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import (
    ConnectionClosed,
    InvalidHandshake,
    InvalidStatus,
    WebSocketException,
)
from websockets.typing import Subprotocol

from holdfast.client.event_stream import NoStream, StreamEnded
from holdfast.client.http import Http
from holdfast.client.long_poll import PlainFeed
from holdfast.client.problems import asks_to_retry, problem
from holdfast.client.unanswered import unanswered, untrusted
from holdfast.core.address import shown_url
from holdfast.core.close_codes import CloseAction, after_close
from holdfast.core.watching import (
    Watching,
    WatchStep,
    after_refusal,
    backoff_seconds,
    connected,
    received,
    subscribe_frame,
)
from holdfast.errors import Conflict, FeedReset, HoldfastError

SUBPROTOCOL: Final = Subprotocol("holdfast.v1")
FRAME_BYTES_MAX: Final = 16 * 1024 * 1024
PING_SECONDS: Final = 20.0
log = logging.getLogger("holdfast.client")

NO_LOGIN: Final = "the token is unknown, expired or revoked: ask an administrator for another"
NO_RIGHT: Final = "check the address, and whether the roles and projects of the token allow it"
NO_FEED: Final = "check that the client and the gateway are of the same version"

OnReset = Literal["raise", "snapshot"]
WatchState = Literal["live", "catching_up", "reconnecting"]


class WatchItem(msgspec.Struct, frozen=True):
    """What a watcher sees: an event, a part of a snapshot, or a reset.

    A snapshot whose `part` is 1 replaces every part before it: the connection was lost in between."""

    type: str
    """The frame name, e.g. `task.status_changed`; `snapshot` or `reset`."""
    position: str | None
    """Watch again from here to continue after this item. None: the snapshot is not complete."""
    frame: dict[str, Any]

    @property
    def kind(self) -> str:
        """The kind of the event, e.g. `task.started`."""
        return str(self.frame.get("kind", ""))

    @property
    def at(self) -> str | None:
        """The time of the event as text, RFC 3339 in UTC. None: it is no event."""
        at = self.frame.get("at")
        return None if at is None else str(at)

    @property
    def payload(self) -> Any:
        """The fields of the event, or the object of the snapshot."""
        return self.frame.get("payload")


class _Ended(Exception):
    """A connection ended."""

    def __init__(self, action: CloseAction, reason: str, retry_after_ms: object = None) -> None:
        super().__init__(reason)
        self.action = action
        self.retry_after_ms = retry_after_ms


class Feed(Protocol):
    """A connection to the feed."""

    async def send(self, message: str) -> None: ...

    async def recv(self) -> str | bytes: ...


Open = Callable[[Http, str], AbstractAsyncContextManager[ClientConnection]]
"""Opens a WebSocket to the feed of the gateway at this address."""


class Watch:
    """One subscription. Iterate it once, in `async with` or with `aclose` at the end. `position`: everything
    up to there was shown, and the next item was asked for; save it to go on there later."""

    def __init__(
        self,
        http: Http,
        channel: str,
        *,
        position: str | None = None,
        snapshot: bool = True,
        kinds: tuple[str, ...] = (),
        on_reset: OnReset = "snapshot",
        is_last: Callable[[WatchItem], bool] | None = None,
        open_connection: Open | None = None,
    ) -> None:
        """`is_last`: the iteration ends after the item. `open_connection`: a WebSocket by another way than
        the network, for a simulation."""
        self._open = open_connection or open_websocket
        self._may_stream = open_connection is None
        self._http = http
        self._channel = channel
        self._snapshot = snapshot
        self._kinds = kinds
        self._on_reset = on_reset
        self._is_last = is_last
        self._watching = Watching(position)
        self._failures = 0
        self._refusal: _Ended | None = None
        """Why there is no WebSocket."""
        self._polls = False
        """Whether no stream passes either."""
        self._untrusted: set[str] = set()
        """Gateways whose certificates were not trusted since the last connection."""
        self._is_connected = False
        self._items = self._iterate()
        self.position = position
        """Everything up to here was shown, and the next item was asked for."""
        self.connections = 0

    @property
    def state(self) -> WatchState:
        """Whether events come as they happen."""
        if not self._is_connected:
            return "reconnecting"
        return "live" if self._watching.is_live else "catching_up"

    def __aiter__(self) -> Watch:
        return self

    async def __anext__(self) -> WatchItem:
        return await anext(self._items)

    async def aclose(self) -> None:
        """Ends the subscription and its connection."""
        await self._items.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def _iterate(self) -> AsyncGenerator[WatchItem, None]:
        while True:
            url = self._http.url
            try:
                async with AsyncExitStack() as stack:
                    connection = await self._connect(stack, url)
                    session = self._session(connection)
                    stack.push_async_callback(session.aclose)
                    async for item in session:
                        yield item
                        if self._is_last is not None and self._is_last(item):
                            self.position = item.position
                            return
            except _Ended as ended:
                await self._recover(ended, url)

    async def _recover(self, ended: _Ended, url: str) -> None:
        """Waits for the next try, or raises when there is no use in one."""
        self._is_connected = False
        match ended.action:
            case CloseAction.LOG_IN:
                raise problem(401, {"detail": self._refusal_text(ended, NO_LOGIN)}) from None
            case CloseAction.FORBIDDEN:
                raise problem(403, {"detail": self._refusal_text(ended, NO_RIGHT)}) from None
            case CloseAction.GIVE_UP:
                raise Conflict(self._refusal_text(ended, NO_FEED)) from None
            case CloseAction.RECONNECT:
                self._say(ended, url)
                jitter = self._http.ids.random_unit()
                pause = backoff_seconds(self._failures, jitter, ended.retry_after_ms)
                self._failures += 1
                self._http.next_gateway(url)
                await self._http.clock.sleep(pause)

    def _say(self, ended: _Ended, url: str) -> None:
        """Logs why there is no feed: at the second failure in a row, then ever more rarely. One alone is a
        gateway that stops, or a cut connection: the next gateway goes on at once."""
        if (failures := self._failures) > 0 and failures & (failures - 1) == 0:
            log.warning("no feed at gateway %s: %s; trying again", shown_url(url), ended)

    def _refusal_text(self, ended: _Ended, advice: str) -> str:
        text = f"the gateway ended the watch of {self._channel}: {ended}; {advice}"
        return (
            text if self.position is None else f"{text}; it continues at position {self.position}"
        )

    async def _session(self, connection: Feed) -> AsyncGenerator[WatchItem, None]:
        """The items of one connection. Raises _Ended when it is over."""
        self._watching = connected(self._watching)
        self._is_connected = True
        await self._subscribe(connection)
        bye: dict[str, Any] = {}
        while True:
            message = await _receive(connection, bye)
            kind = message.get("type")
            if kind == "bye":
                bye = message
            elif kind == "error":
                _refuse(message)
            self._watching, step = received(self._watching, message)
            if self._watching.is_live:
                self._failures = 0
            if step is WatchStep.RECONNECT:
                raise _Ended(CloseAction.RECONNECT, "a frame is missing")
            if step is WatchStep.SHOW:
                self._failures = 0
                yield WatchItem(str(kind), self._watching.position, message)
            elif step is WatchStep.START_OVER:
                yield self._reset(message)
            # The caller asked for the next item, so it has used this one.
            self.position = self._watching.position
            if step is WatchStep.START_OVER:
                await self._start_over(connection)

    def _reset(self, message: dict[str, Any]) -> WatchItem:
        if self._on_reset == "raise":
            names = ("reason", "oldest", "position")
            raise FeedReset(*(str(message.get(name, "")) for name in names))
        return WatchItem("reset", None, message)

    async def _start_over(self, connection: Feed) -> None:
        """Subscribes again with a snapshot. A reset of that subscription too is a failure."""
        self._snapshot = True
        self._failures += 1
        if self._failures > 1:
            raise _Ended(CloseAction.RECONNECT, "the feed was reset twice")
        await self._subscribe(connection)

    async def _subscribe(self, connection: Feed) -> None:
        frame = subscribe_frame(
            self._watching, self._channel, snapshot=self._snapshot, kinds=self._kinds
        )
        try:
            await connection.send(msgspec.json.encode(frame).decode())
        except ConnectionClosed as error:
            raise _ended(error, {}) from None
        except StreamEnded as error:
            raise _Ended(CloseAction.RECONNECT, str(error)) from None
        except NoStream:
            raise self._refusal or _Ended(CloseAction.RECONNECT, "no feed") from None
        except HoldfastError as error:
            if not asks_to_retry(error):
                raise
            raise _Ended(CloseAction.RECONNECT, str(error)) from None

    async def _connect(self, stack: AsyncExitStack, url: str) -> Feed:
        self._refusal = None
        try:
            connection: Feed = await stack.enter_async_context(self._open(self._http, url))
        except InvalidHandshake as error:
            # Not every proxy lets a WebSocket pass. The answer to a plain request decides.
            self._refusal = _refused(error)
            if not self._may_stream or self._refusal.action is CloseAction.LOG_IN:
                raise self._refusal from None
            connection = plain = PlainFeed(self._http, url, polls=self._polls)
            stack.push_async_callback(self._close, plain)
        except (OSError, WebSocketException, TimeoutError) as error:
            raise self._no_connection(shown_url(url), error) from None
        self._untrusted.clear()
        self.connections += 1
        return connection

    def _no_connection(self, name: str, error: Exception) -> Exception:
        """BadConfig once no gateway has a certificate that is trusted; else the next one is tried."""
        if (refusal := untrusted(name, error)) is None:
            return _Ended(CloseAction.RECONNECT, str(unanswered(name, error)))
        self._untrusted.add(name)
        if len(self._untrusted) >= len(self._http.urls):
            return refusal
        return _Ended(CloseAction.RECONNECT, str(refusal))

    async def _close(self, plain: PlainFeed) -> None:
        """A long poll is used again: the proxy is still there."""
        self._polls = plain.polls
        await plain.close()


def open_websocket(http: Http, url: str) -> AbstractAsyncContextManager[ClientConnection]:
    """A WebSocket over the network."""
    address = "ws" + url.removeprefix("http") + "/api/v1/ws"
    options: dict[str, Any] = {}
    if http.verify is not None and address.startswith("wss"):
        options["ssl"] = http.verify
    return connect(
        address,
        additional_headers=http.headers(),
        subprotocols=[SUBPROTOCOL],
        max_size=FRAME_BYTES_MAX,
        compression=None,
        ping_interval=PING_SECONDS,
        ping_timeout=PING_SECONDS,
        proxy=None,
        **options,
    )


def _refuse(message: dict[str, Any]) -> NoReturn:
    """The subscription was refused: now, or for good."""
    error = problem(422, message)
    if message.get("retryable") is True:
        raise _Ended(CloseAction.RECONNECT, str(error))
    raise error


async def _receive(connection: Feed, bye: dict[str, Any]) -> dict[str, Any]:
    try:
        message = msgspec.json.decode(await connection.recv())
    except ConnectionClosed as error:
        raise _ended(error, bye) from None
    except StreamEnded as error:
        retry_after_ms = bye.get("retry_after_ms")
        raise _Ended(CloseAction.RECONNECT, str(error), retry_after_ms) from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        message = None
    if not isinstance(message, dict):
        raise _Ended(CloseAction.RECONNECT, "a frame is not a JSON object")
    return message


def _refused(error: InvalidHandshake) -> _Ended:
    if isinstance(error, InvalidStatus):
        status = error.response.status_code
        return _Ended(after_refusal(status), f"it answered {status}")
    return _Ended(CloseAction.RECONNECT, f"no connection: {error!r}")


def _ended(error: ConnectionClosed, bye: dict[str, Any]) -> _Ended:
    close = error.rcvd
    code = close.code if close is not None else None
    reason = bye.get("reason") or (close.reason if close is not None else "")
    text = str(reason or ("no answer" if code is None else f"it closed with code {code}"))
    return _Ended(after_close(code), text, bye.get("retry_after_ms"))
