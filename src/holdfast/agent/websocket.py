"""The way to a gateway over one WebSocket: `GET /agent/v1/ws`.

The messages are those of `/agent/v1/sync`. Promises: one connection for all syncs; a call that is given up
keeps it, where a call over HTTP needs another one. A connection that ends fails the call that is open, and
the next call connects to the next gateway. Enrolment and starts are calls over HTTP. The credential goes to
the gateways given, and to no log.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final

import msgspec

from holdfast.agent.http import PREFIX, HttpTransport
from holdfast.client.http import CONNECT_SECONDS, TIMEOUT_SECONDS, Http
from holdfast.client.problems import problem
from holdfast.client.unanswered import unanswered, untrusted
from holdfast.core import close_codes
from holdfast.core.address import shown_url
from holdfast.core.errors import GatewayUnavailable
from holdfast.core.fleet.agents.wire import AgentSync, AgentSyncAnswer
from holdfast.errors import HoldfastError

SUBPROTOCOL: Final = "holdfast.agent.v1"
PING_SECONDS: Final = 20.0
"""A gateway that does not answer a ping for as long is one that is gone."""
FRAME_BYTES_MAX: Final = 64 * 1_048_576
log = logging.getLogger("holdfast.agent")


class _Frame(msgspec.Struct):
    """What every frame has."""

    seq: int = 0
    error: dict[str, Any] | None = None


class WebSocketTransport(HttpTransport):
    """The calls of an agent; syncs are frames of one connection."""

    def __init__(self, http: Http) -> None:
        super().__init__(http)
        self._connection: Any = None
        self._url = ""
        self._reading: asyncio.Task[None] | None = None
        self._waiting: dict[int, asyncio.Future[AgentSyncAnswer]] = {}

    def use(self, credential: str) -> None:
        """The connection of an earlier credential does not count for it."""
        super().use(credential)
        self._drop()

    async def sync(self, sync: AgentSync) -> AgentSyncAnswer:
        from websockets.exceptions import ConnectionClosed

        connection = await self._connected()
        future: asyncio.Future[AgentSyncAnswer] = asyncio.get_running_loop().create_future()
        self._waiting[sync.seq] = future
        try:
            async with asyncio.timeout(sync.wait_seconds + TIMEOUT_SECONDS):
                await connection.send(msgspec.json.encode(sync), text=True)
                return await future
        except ConnectionClosed as error:
            raise self._ended(error) from None
        except TimeoutError:
            self._http.next_gateway(self._url)
            self._drop()
            raise GatewayUnavailable("the gateway did not answer in time") from None
        finally:
            self._waiting.pop(sync.seq, None)

    async def close(self) -> None:
        reading, connection = self._reading, self._connection
        self._drop()
        if reading is not None:
            await asyncio.gather(reading, return_exceptions=True)
            await connection.close()
        await super().close()

    # -- the connection --------------------------------------------------------------------------------

    async def _connected(self) -> Any:
        if self._reading is None or self._reading.done():
            self._url = self._http.url
            self._connection = await _connect(self._http)
            self._reading = asyncio.create_task(
                self._read(self._connection), name="holdfast-agent-websocket"
            )
        return self._connection

    def _drop(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None

    async def _read(self, connection: Any) -> None:
        """Hands answers to those that wait. The answer to a call that was given up is dropped: what it said
        is said again."""
        from websockets.exceptions import ConnectionClosed

        failure: HoldfastError = GatewayUnavailable("the connection to the gateway was dropped")
        try:
            while True:
                self._take(await connection.recv(decode=False))
        except ConnectionClosed as error:
            failure = self._ended(error)
        except msgspec.MsgspecError as error:
            failure = GatewayUnavailable(f"the answer is none for an agent: {error}")
        finally:
            for future in self._waiting.values():
                if not future.done():
                    future.set_exception(failure)
            connection.transport.abort()

    def _take(self, data: bytes) -> None:
        frame = msgspec.json.decode(data, type=_Frame)
        if frame.error is None:
            future = self._waiting.get(frame.seq)
            if future is not None and not future.done():
                future.set_result(msgspec.json.decode(data, type=AgentSyncAnswer))
            return
        # A sync that could not be read has no number: the latest one is meant.
        future = self._waiting.get(frame.seq or max(self._waiting, default=0))
        if future is not None and not future.done():
            future.set_exception(problem(int(frame.error.get("status", 500)), frame.error))

    def _ended(self, closed: Any) -> HoldfastError:
        """The error of a close: a refusal, or an interruption, after which the next gateway is tried."""
        frame = closed.rcvd
        name = None if frame is None else close_codes.refusal(frame.code, frame.reason)
        if name is None:
            self._http.next_gateway(self._url)
            return GatewayUnavailable(f"the connection to {shown_url(self._url)} ended: {closed}")
        detail = frame.reason if frame.reason and frame.reason != name else "the gateway refused"
        return problem(close_codes.http_status(frame.code), {"code": name, "detail": detail})


async def _connect(http: Http) -> Any:
    from websockets.asyncio.client import connect
    from websockets.exceptions import InvalidStatus, WebSocketException
    from websockets.typing import Subprotocol

    url = http.url
    options: dict[str, Any] = {}
    if http.verify is not None and url.startswith("https:"):
        options["ssl"] = http.verify
    try:
        return await connect(
            url.replace("http", "ws", 1) + f"{PREFIX}/ws",
            subprotocols=[Subprotocol(SUBPROTOCOL)],
            additional_headers=http.headers(),
            open_timeout=CONNECT_SECONDS,
            close_timeout=1.0,
            ping_interval=PING_SECONDS,
            ping_timeout=PING_SECONDS,
            max_size=FRAME_BYTES_MAX,
            compression=None,
            proxy=None,
            **options,
        )
    except InvalidStatus as error:
        http.next_gateway(url)
        raise GatewayUnavailable(
            f"{shown_url(url)} does not accept a WebSocket (HTTP {error.response.status_code}): a proxy "
            "before it may not pass them on; use --transport http"
        ) from None
    except (OSError, TimeoutError, WebSocketException) as error:
        http.next_gateway(url)
        raise untrusted(shown_url(url), error) or unanswered(shown_url(url), error) from None
