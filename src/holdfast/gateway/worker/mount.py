"""Worker sync in a server: the hub of its workers, and the routes of WebSocket and HTTP.

Promises: the workers of one gateway share its store, its bus and its group commit. A commit of theirs wakes
dispatchers, waiting workers and readers of the feed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket

from holdfast.bus.port import WORK
from holdfast.core.errors import TooLarge
from holdfast.errors import HoldfastError
from holdfast.gateway.feed.protocol import EXTENSION
from holdfast.gateway.gateway import Gateway
from holdfast.gateway.rest.problem import problem_response
from holdfast.gateway.worker import http
from holdfast.gateway.worker.commands import StoredCommands
from holdfast.gateway.worker.hub import WorkerHub
from holdfast.gateway.worker.ports import Authenticate
from holdfast.gateway.worker.principals import WorkerAuth
from holdfast.gateway.worker.websocket import FRAME_BYTES_MAX, bearer, serve_websocket
from holdfast.sync.worker.worker_sync import WorkerSync

WEBSOCKET_PATH: Final = "/api/v1/worker/ws"
HTTP_PATH: Final = "/api/v1/worker/sync"


class WorkerMount:
    """The part of a gateway that serves remote workers."""

    def __init__(self, gateway: Gateway) -> None:
        hub = gateway.hub
        self.sync = WorkerSync(hub.store, hub.clock, on_changed=hub.wake)
        self.authenticate: Authenticate = WorkerAuth(gateway.auth)
        self.hub = WorkerHub(
            hub.store,
            hub.clock,
            self.sync,
            gateway=hub.ids.token(),
            commands=StoredCommands(hub.store, hub.bus),
            listen=lambda wake: hub.bus.subscribe(lambda _: wake(), WORK),
        )

    def extend(self, app: FastAPI, gateway: Gateway) -> None:
        """Adds the routes. See `Mounts.extend`."""

        async def websocket(connection: WebSocket) -> None:
            _allow_large_frames(connection)
            await serve_websocket(self.hub, self.authenticate, connection)

        async def exchange(request: Request) -> Response:
            try:
                return await self._exchange(request)
            except HoldfastError as error:
                return problem_response(error, gateway.hub.request_id())

        app.router.routes.append(WebSocketRoute(WEBSOCKET_PATH, websocket))
        app.router.routes.append(Route(HTTP_PATH, exchange, methods=["POST"]))

    async def _exchange(self, request: Request) -> Response:
        secret = bearer(request.headers.get("authorization", ""))
        principal = await self.authenticate(secret)
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > FRAME_BYTES_MAX:
                raise TooLarge(f"a request has at most {FRAME_BYTES_MAX} bytes")
        answer = await http.exchange(self.hub, principal, body)
        return Response(answer.body(), answer.status, media_type="application/json")

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Ends the connections of workers before the server stops: they connect to another gateway."""
        try:
            yield
        finally:
            self.hub.end_sessions()
            await self.sync.close()


def _allow_large_frames(connection: WebSocket) -> None:
    """Results of tasks are larger than the frames that the server reads from other clients."""
    extension = connection.scope.get("extensions", {}).get(EXTENSION)
    if extension is not None:
        extension["protocol"].conn.max_message_size = FRAME_BYTES_MAX
