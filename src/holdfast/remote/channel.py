"""One connection to one gateway: messages out, messages in.

Promises: a refusal by the gateway raises its typed error, a certificate that is not trusted BadConfig, every
other end GatewayUnavailable. Never: retries (`link.py` does).
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol, TypeAlias

import msgspec

from holdfast.client.problems import problem
from holdfast.client.unanswered import unanswered, untrusted
from holdfast.core import close_codes
from holdfast.core.address import shown_url
from holdfast.core.errors import GatewayUnavailable
from holdfast.core.worker.json_form import encode
from holdfast.core.worker.wire import (
    PROTOCOL,
    ErrorFrame,
    GatewayMessage,
    Hello,
    Welcome,
    WorkerMessage,
)
from holdfast.errors import HoldfastError

CONNECT_SECONDS: Final = 5.0
WELCOME_SECONDS: Final = 10.0
"""How long a gateway may take for its answer to `Hello`."""
FRAME_BYTES_MAX: Final = 64 * 1_048_576
"""An offer carries many tasks with their payloads (`core.capacity.offer_max`)."""
_messages: Final = msgspec.json.Decoder(GatewayMessage)
FATAL: Final = frozenset({"unauthenticated", "forbidden", "node-fenced"})
"""Codes of errors after which a new connection would be refused as well."""
UNKNOWN_NODE: Final = "unknown-node"
ENDING: Final = FATAL | {UNKNOWN_NODE}
"""Codes of errors that end the session. After another one the gateway goes on, or it hangs up."""
log = logging.getLogger("holdfast.worker")


class Channel(Protocol):
    async def send(self, message: WorkerMessage) -> None: ...

    async def receive(self) -> GatewayMessage: ...

    async def close(self) -> None: ...


Connect: TypeAlias = Callable[[str, str, float], Awaitable[Channel]]
"""Opens a connection: URL, token, seconds between pings."""


_REFUSED: Final = {
    "unauthenticated": (
        "the token is not valid: it is unknown, expired or revoked; ask an administrator for another"
    ),
    "forbidden": (
        "the token may not run tasks: a worker needs a join token (holdfast token create NAME --kind join)"
    ),
}
"""What a close that refuses the worker means."""


class WebSocketChannel:
    """A connection over WebSocket."""

    def __init__(self, connection: Any, url: str) -> None:
        self._connection = connection
        self._url = url

    async def send(self, message: WorkerMessage) -> None:
        from websockets.exceptions import ConnectionClosed

        try:
            await self._connection.send(encode(message), text=True)
        except ConnectionClosed as error:
            raise self._ended(error) from None

    async def receive(self) -> GatewayMessage:
        """The next message. Those of a newer protocol are skipped."""
        from websockets.exceptions import ConnectionClosed

        while True:
            try:
                data = await self._connection.recv(decode=False)
            except ConnectionClosed as error:
                raise self._ended(error) from None
            try:
                message: GatewayMessage = _messages.decode(data)
            except msgspec.DecodeError as error:
                log.warning("a message of gateway %s cannot be read: %s", self._url, error)
            else:
                return message

    async def close(self) -> None:
        await self._connection.close()

    def _ended(self, closed: Any) -> Exception:
        """The error of a close that no error message came before."""
        frame = closed.rcvd
        name = None if frame is None else close_codes.refusal(frame.code, frame.reason)
        if name is not None:
            status = close_codes.http_status(frame.code)
            detail = _REFUSED.get(name, f"the gateway refused: {name}")
            return problem(status, {"code": name, "detail": detail})
        return GatewayUnavailable(f"the connection to {self._url} ended: {closed}")


async def connect(
    url: str, token: str, ping_seconds: float, context: ssl.SSLContext | None = None
) -> WebSocketChannel:
    """Connects to worker sync at a gateway. `context`: for TLS, in place of the default."""
    from websockets.asyncio.client import connect as open_websocket
    from websockets.exceptions import InvalidStatus, WebSocketException
    from websockets.typing import Subprotocol

    shown = shown_url(url)
    options: dict[str, Any] = {}
    if context is not None and url.startswith("wss:"):
        options["ssl"] = context
    try:
        connection = await open_websocket(
            url,
            subprotocols=[Subprotocol(PROTOCOL)],
            additional_headers={"Authorization": f"Bearer {token}"},
            open_timeout=CONNECT_SECONDS,
            close_timeout=1.0,
            ping_interval=ping_seconds,
            ping_timeout=ping_seconds,
            max_size=FRAME_BYTES_MAX,
            compression=None,
            proxy=None,
            **options,
        )
    except InvalidStatus as error:
        raise problem(error.response.status_code, None) from None
    except (OSError, TimeoutError, WebSocketException) as error:
        raise untrusted(shown, error) or unanswered(shown, error) from None
    return WebSocketChannel(connection, shown)


async def greet(channel: Channel, hello: Hello) -> Welcome:
    """Says hello and waits for the welcome. The channel is closed if there is none."""
    try:
        async with asyncio.timeout(WELCOME_SECONDS):
            await channel.send(hello)
            while not isinstance(message := await channel.receive(), Welcome):
                if isinstance(message, ErrorFrame):
                    raise error_of(message)
            return message
    except TimeoutError:
        await channel.close()
        raise GatewayUnavailable("the gateway did not answer hello in time") from None
    except BaseException:
        await channel.close()
        raise


def error_of(frame: ErrorFrame) -> HoldfastError:
    """The error that a gateway sent."""
    return problem(500, {"code": frame.code, "detail": frame.detail})
