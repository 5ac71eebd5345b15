"""The transports of clients: HTTP, and WebSockets with the interface of the package websockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final, cast
from urllib.parse import urlsplit

import httpx2
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosedError
from websockets.frames import Close

from holdfast.client.http import Http
from holdfast.client.watch import PING_SECONDS, SUBPROTOCOL
from holdfast.core.errors import GatewayUnavailable
from holdfast.core.worker.wire import PROTOCOL
from holdfast.gateway.rest.apis import FEED_WEBSOCKET
from holdfast.remote.channel import WebSocketChannel
from holdfast.sim.hub.sockets import LOST, End, Frame, Listener, Request, Sockets
from holdfast.sim.node import Node

REQUEST_SECONDS: Final = 10.0


class Wireless(httpx2.AsyncBaseTransport):
    """HTTP over the simulated network. Each request has its own connection."""

    def __init__(self, sockets: Sockets, node: Node) -> None:
        self._sockets = sockets
        self._node = node

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        sockets, node, net = self._sockets, self._node, self._sockets.cluster.net
        target = request.url.host
        message = Request(
            request.method,
            request.url.path,
            request.url.query,
            tuple((name.lower(), value) for name, value in request.headers.raw),
            await request.aread(),
        )
        answer: asyncio.Future[httpx2.Response] = sockets.cluster.loop.create_future()

        def settle(response: Any) -> None:
            if not answer.done():
                answer.set_result(response)

        def reply(response: object) -> None:
            net.send(target, node.name, "answer", partial(settle, response))

        def serve(listener: Listener) -> None:
            listener.serve(message, reply)

        try:
            sockets.arrive(node, target, serve)
            async with asyncio.timeout(REQUEST_SECONDS):
                response = await answer
        except ConnectionRefusedError as error:
            await node.clock.sleep(0.01)
            raise httpx2.ConnectError(str(error)) from None
        except TimeoutError:
            net.reconnected(node.name, target)
            raise httpx2.ReadTimeout("no answer") from None
        return httpx2.Response(
            response.status_code, headers=response.headers, content=response.content
        )


class ClientSocket:
    """A WebSocket, as the package websockets has it."""

    def __init__(self, end: End) -> None:
        self._end = end

    async def send(self, message: str | bytes, text: bool | None = None) -> None:
        if self._end.closed is not None:
            raise _closed(self._end.closed)
        self._end.send(Frame("text", message if isinstance(message, str) else message.decode()))

    async def recv(self, decode: bool | None = None) -> str | bytes:
        frame = await self._end.receive()
        if frame.kind == "close":
            raise _closed(frame)
        return frame.text.encode() if decode is False else frame.text

    async def close(self, code: int = 1000, reason: str = "") -> None:
        self._end.close(code, reason)


def _closed(frame: Frame) -> ConnectionClosedError:
    close = None if frame.code == LOST else Close(frame.code, frame.text)
    return ConnectionClosedError(close, None)


class Refused(OSError):
    """The gateway does not accept the WebSocket."""


class Dialer:
    """Opens WebSockets of one node."""

    def __init__(self, sockets: Sockets, node: Node) -> None:
        self._sockets = sockets
        self._node = node

    async def _dial(
        self, url: str, token: str, path: str, subprotocol: str, ping_seconds: float
    ) -> ClientSocket:
        header = (b"authorization", f"Bearer {token}".encode())
        request = Request("GET", path, b"", (header,), subprotocol=subprotocol)
        target = urlsplit(url).hostname or ""
        end, answer = await self._sockets.connect(self._node, target, request, ping_seconds)
        if answer.kind != "accept":
            end.break_off()
            raise Refused(f"{answer}")
        return ClientSocket(end)

    @asynccontextmanager
    async def feed(self, http: Http, url: str) -> AsyncIterator[ClientConnection]:
        """See `client.watch.Open`."""
        socket = await self._dial(url, http.token or "", FEED_WEBSOCKET, SUBPROTOCOL, PING_SECONDS)
        try:
            yield cast("ClientConnection", socket)
        finally:
            await socket.close()

    async def channel(self, url: str, token: str, ping_seconds: float) -> WebSocketChannel:
        """See `remote.channel.connect`."""
        path = urlsplit(url).path
        try:
            socket = await self._dial(url, token, path, PROTOCOL, ping_seconds)
        except (OSError, TimeoutError) as error:
            raise GatewayUnavailable(f"no gateway answers at {url}: {error!r}") from None
        return WebSocketChannel(socket, url)
