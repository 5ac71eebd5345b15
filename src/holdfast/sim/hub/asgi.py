"""Serves the connections of a simulated gateway with the gateway's own routes, as an ASGI server does."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import httpx2
from starlette.websockets import WebSocket

from holdfast.gateway.compose import Composition
from holdfast.gateway.feed.requests import PING_SECONDS
from holdfast.gateway.feed.websocket import serve_websocket as serve_feed
from holdfast.gateway.rest.apis import WORKER_WEBSOCKET
from holdfast.gateway.rest.app import applications
from holdfast.gateway.worker.websocket import serve_websocket as serve_worker
from holdfast.sim.hub.sockets import End, Frame, Request, Sockets
from holdfast.sim.node import Node

Message = MutableMapping[str, Any]


class App:
    """The routes of one gateway."""

    def __init__(self, made: Composition) -> None:
        self._apis = tuple(applications(made.gateway).items())
        self._live = made.live
        self._workers = made.workers

    async def http(self, request: Request) -> httpx2.Response:
        """Answers one request."""
        sent: list[Message] = []

        async def receive() -> Message:
            return {"type": "http.request", "body": request.body, "more_body": False}

        async def send(message: Message) -> None:
            sent.append(message)

        prefix, api = next(each for each in self._apis if request.path.startswith(each[0]))
        scope = _scope("http", request) | {"root_path": prefix, "method": request.method}
        await api(scope, receive, send)
        start, *parts = sent
        return httpx2.Response(
            start["status"],
            headers=start["headers"],
            content=b"".join(part.get("body", b"") for part in parts),
        )

    async def websocket(self, request: Request, end: End) -> None:
        """Serves one WebSocket until it ends."""
        socket = _ServerSocket(end)
        scope = _scope("websocket", request) | {"subprotocols": [request.subprotocol]}
        websocket = WebSocket(scope, socket.receive, socket.send)
        end.keep_alive()
        try:
            if request.path == WORKER_WEBSOCKET:
                await serve_worker(
                    self._workers.service, self._workers.door.by_connection, websocket
                )
            else:
                await serve_feed(self._live.feed, websocket)
        finally:
            end.close(1000, "")


class _ServerSocket:
    """The side of the server, as ASGI has it."""

    def __init__(self, end: End) -> None:
        self._end = end
        self._is_connected = False

    async def receive(self) -> Message:
        if not self._is_connected:
            self._is_connected = True
            return {"type": "websocket.connect"}
        frame = await self._end.receive()
        if frame.kind == "close":
            return {"type": "websocket.disconnect", "code": frame.code, "reason": frame.text}
        return {"type": "websocket.receive", "text": frame.text}

    async def send(self, message: Message) -> None:
        end = self._end
        if end.closed is not None and message["type"] != "websocket.close":
            raise OSError("the client has gone")
        match message["type"]:
            case "websocket.accept":
                end.send(Frame("accept"))
            case "websocket.send":
                end.send(Frame("text", message["text"]))
            case "websocket.close":
                end.close(message.get("code", 1000), message.get("reason") or "")
            case "websocket.http.response.start":
                end.send(Frame("refuse", code=message["status"]))


def _scope(kind: str, request: Request) -> dict[str, Any]:
    return {
        "type": kind,
        "path": request.path,
        "raw_path": request.path.encode(),
        "query_string": request.query,
        "headers": list(request.headers),
        "extensions": {"websocket.http.response": {}},
    }


class Acceptor:
    """Takes what comes to a gateway and serves each in a task of its process."""

    def __init__(self, node: Node, app: App, sockets: Sockets) -> None:
        self._node = node
        self._app = app
        self._tasks: set[asyncio.Task[None]] = set()
        sockets.listen(node, self._accept, self._serve)

    def _accept(self, wire: Any, request: Request) -> None:
        end = wire.accept(self._node, PING_SECONDS)
        self._spawn(self._app.websocket(request, end))

    def _serve(self, request: Request, reply: Callable[[object], None]) -> None:
        self._spawn(self._answer(request, reply))

    async def _answer(self, request: Request, reply: Callable[[object], None]) -> None:
        reply(await self._app.http(request))

    def _spawn(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._node.cluster.loop.call_exception_handler(
                {"message": f"a connection of {self._node.life} failed", "exception": error}
            )
