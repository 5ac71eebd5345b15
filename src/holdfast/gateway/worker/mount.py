"""Worker sync in a server: the service of its workers, gRPC, and the routes of WebSocket and HTTP.

Promises: the workers of one gateway share its store, its bus and its group commit. A commit of theirs wakes
dispatchers, waiting workers and readers of the feed. gRPC is served where grpcio is installed.
"""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket

from holdfast.bus.port import FEED, WORK
from holdfast.core.errors import TooLarge
from holdfast.errors import BadConfig, HoldfastError
from holdfast.gateway.connections import Door
from holdfast.gateway.feed.broadcaster import ACCESS_KINDS, Broadcaster
from holdfast.gateway.feed.protocol import EXTENSION
from holdfast.gateway.gateway import Gateway
from holdfast.gateway.rest import body as bodies
from holdfast.gateway.rest.apis import WORKER_HTTP, WORKER_WEBSOCKET
from holdfast.gateway.rest.presence import ClientGone, no_reader, while_present
from holdfast.gateway.rest.problem import problem_response
from holdfast.gateway.worker import http
from holdfast.gateway.worker.commands import StoredCommands
from holdfast.gateway.worker.door import WorkerDoor
from holdfast.gateway.worker.service import WorkerService
from holdfast.gateway.worker.taken import TAKING
from holdfast.gateway.worker.websocket import FRAME_BYTES_MAX, serve_websocket
from holdfast.sync.worker.decisions import ask_decision
from holdfast.sync.worker.worker_sync import WorkerSync

if TYPE_CHECKING:
    from holdfast.gateway.settings import ServerSettings
    from holdfast.gateway.worker.grpc import GrpcTls

GRPC: Final = "grpc"
"""The name of gRPC in `worker_transports`."""
STOP_SECONDS: Final = 1.0
"""How long the streams of gRPC may take to end after their sessions have."""


class WorkerMount:
    """The part of a gateway that serves remote workers."""

    def __init__(self, gateway: Gateway, feed: Broadcaster) -> None:
        services = gateway.services
        self._settings = gateway.settings
        self._transports = services.worker_transports
        self._feed = feed
        deadline = services.queue.settings.decision_deadline
        self.sync = WorkerSync(
            services.store,
            services.clock,
            on_changed=self._changed,
            meter=services.metrics,
            ageing_seconds=services.queue.settings.ageing_seconds,
            gather_seconds=gateway.settings.sync.gather_seconds,
            lease_max_seconds=services.rules.lease_max_seconds,
            ask_decision=partial(ask_decision, deadline_seconds=deadline),
        )
        self.door = WorkerDoor(Door(gateway), gateway.auth)
        self._commands = StoredCommands(services.store, partial(_listen, feed), services.metrics)
        self.service = WorkerService(
            services.store,
            services.clock,
            self.sync,
            self._commands,
            nodes=services.nodes,
            gateway=services.ids.token(),
            window=gateway.settings.sync.window,
            listen=lambda wake: services.bus.subscribe(lambda _: wake(), WORK),
            on_scheduled=services.parts.schedules.wake,
            decision_deadline=deadline,
            heard_nodes=services.heard_nodes,
        )

        self._bus = services.bus

    def _changed(self, frees_work: bool) -> None:
        """Hints at what a commit of workers has changed."""
        if frees_work:
            self._bus.publish(WORK)
        self._bus.publish(FEED)

    def extend(self, app: FastAPI, gateway: Gateway) -> None:
        """Adds the paths. See `make_app`."""

        async def websocket(connection: WebSocket) -> None:
            _allow_large_frames(connection)
            await serve_websocket(self.service, self.door.by_connection, connection)

        async def exchange(request: Request) -> Response:
            try:
                return await self._exchange(request)
            except HoldfastError as error:
                return problem_response(error, gateway.services.request_id())

        app.router.routes.append(WebSocketRoute(WORKER_WEBSOCKET, websocket))
        app.router.routes.append(Route(WORKER_HTTP, exchange, methods=["POST"]))

    async def _exchange(self, request: Request) -> Response:
        admitted = await self.door.by_connection(request)
        clock = self.service.clock
        try:
            parts, size, began_at = [], 0, clock.monotonic()
            async for part in request.stream():
                parts.append(part)
                size += len(part)
                if size > FRAME_BYTES_MAX:
                    raise TooLarge(f"a request has at most {FRAME_BYTES_MAX} bytes")
            body = b"".join(parts)
            if clock.monotonic() - began_at > bodies.SLOW_SECONDS:
                await admitted.recheck("")
            exchanged = http.exchange(self.service, admitted.speaker, body)
            answer = await while_present(request, exchanged)
            return Response(answer.body(), answer.status, media_type="application/json")
        except ClientGone:
            return no_reader()
        finally:
            admitted.close()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Ends the connections of workers before the server stops: they connect to another gateway."""
        unlisten = [self._feed.listen(kind, self.service.recheck_all) for kind in ACCESS_KINDS]
        taken = self.service.taken
        unlisten += [self._feed.listen(kind, taken.wake) for kind in TAKING]
        looking = asyncio.create_task(taken.run(self.service.lose), name="holdfast-taken-runs")
        async with AsyncExitStack() as stack:
            if self._settings.grpc_listens is not None:
                await stack.enter_async_context(self._serving_grpc(self._settings.grpc_listens))
            try:
                yield
            finally:
                for end in unlisten:
                    end()
                looking.cancel()
                self._commands.close()
                await self.service.end_sessions()
        await self.sync.close()

    @asynccontextmanager
    async def _serving_grpc(self, port: int) -> AsyncIterator[None]:
        if importlib.util.find_spec("grpc") is None:
            if self._settings.grpc_port is not None:
                raise BadConfig("grpc_port needs grpcio: pip install 'holdfast[grpc]'")
            yield
            return
        from holdfast.gateway.worker import grpc

        host = f"[{self._settings.host}]" if ":" in self._settings.host else self._settings.host
        server, self._transports[GRPC] = grpc.server(
            self.service, self.door.by_secret, f"{host}:{port}", tls=_tls(self._settings)
        )
        await server.start()
        try:
            yield
        finally:
            await server.stop(STOP_SECONDS)


def _listen(feed: Broadcaster, wake: Callable[[], None]) -> Callable[[], None]:
    """Listens to what brings a command or an answer for a worker."""
    ends = [feed.listen(prefix, wake) for prefix in ("intervention.issued", "decision.")]

    def close() -> None:
        for end in ends:
            end()

    return close


def _tls(settings: ServerSettings) -> GrpcTls | None:
    from holdfast.gateway.worker.grpc import GrpcTls

    if settings.tls_cert is None or settings.tls_key is None:
        return None
    try:
        files = [settings.tls_cert, settings.tls_key]
        if settings.client_ca is not None:
            files.append(settings.client_ca)
        return GrpcTls(*(Path(name).read_bytes() for name in files))
    except OSError as error:
        raise BadConfig(f"the server cannot read {error.filename}: {error.strerror}") from None


def _allow_large_frames(connection: WebSocket) -> None:
    """Results of tasks are larger than the frames that the server reads from other clients."""
    extension = connection.scope.get("extensions", {}).get(EXTENSION)
    if extension is not None:
        extension["protocol"].conn.max_message_size = FRAME_BYTES_MAX
