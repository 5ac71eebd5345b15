"""A gateway with real servers, and workers that speak to it over each transport."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Self, TypeVar

import grpc
import grpc.aio
import uvicorn
import websockets
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket

from holdfast.clock import SystemClock
from holdfast.core.errors import Unauthenticated
from holdfast.core.speaking import Voice
from holdfast.core.token import BOOTSTRAP
from holdfast.core.worker import wire
from holdfast.errors import HoldfastError
from holdfast.gateway.auth.bearer import secret_of
from holdfast.gateway.worker import grpc as worker_grpc, http as worker_http, websocket as worker_ws
from holdfast.gateway.worker.door import Admitted
from holdfast.gateway.worker.service import WorkerService
from holdfast.gateway.worker.speaker import Speaker
from holdfast.proto import codec
from holdfast.proto.sync.v1 import sync_pb2 as pb
from holdfast.store.store import Store
from holdfast.sync.worker.worker_sync import WorkerSync
from tests import async_messages

M = TypeVar("M")
TOKENS = {"token-1": "w1", "token-2": "w2", "admin": ""}


async def authenticate(token: str) -> Speaker:
    if token not in TOKENS:
        raise Unauthenticated("this token is not known")
    return Speaker(BOOTSTRAP, TOKENS[token], "default")


async def admit(secret: str, _address: str) -> Admitted:
    return Admitted(await authenticate(secret), lambda _issued: authenticate(secret))


class Commands:
    """A source of commands that a test fills."""

    def __init__(self) -> None:
        self.waiting: list[wire.CommandFrame | wire.Decided] = []
        self.acks: list[wire.CommandAck] = []
        self.asked: list[str] = []
        """The nodes whose commands were asked for."""
        self._news = asyncio.Event()

    def issue(self, command: wire.CommandFrame | wire.Decided) -> None:
        self.waiting.append(command)
        self._news.set()

    async def pending(self, node: str) -> Sequence[wire.CommandFrame | wire.Decided]:
        self.asked.append(node)
        return list(self.waiting)

    async def acknowledge(self, voice: Voice, ack: wire.CommandAck) -> None:
        self.acks.append(ack)
        self.waiting = [c for c in self.waiting if getattr(c, "id", "") != ack.id]

    async def wait(self, node: str) -> None:
        await self._news.wait()
        self._news.clear()


class Served(uvicorn.Server):
    """A server that says when it listens."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.is_up = asyncio.Event()

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        self.is_up.set()


class Gateway:
    def __init__(self, store: Store, tls: worker_grpc.GrpcTls | None = None) -> None:
        self.store = store
        self.commands = Commands()
        self.sync = WorkerSync(store, SystemClock())
        self.service = WorkerService(store, SystemClock(), self.sync, self.commands, gateway="g1")
        self._tls = tls

    async def __aenter__(self) -> Self:
        self.server, self.grpc_port = worker_grpc.server(
            self.service, admit, "127.0.0.1:0", tls=self._tls
        )
        await self.server.start()
        app = Starlette(
            routes=[
                WebSocketRoute("/api/v1/worker/ws", self._websocket),
                Route("/api/v1/worker/sync", self._http, methods=["POST"]),
            ]
        )
        config = uvicorn.Config(
            app, port=0, log_level="warning", ws="websockets-sansio", lifespan="off"
        )
        self._uvicorn = Served(config)
        self._serving = asyncio.create_task(self._uvicorn.serve())
        await self._uvicorn.is_up.wait()
        self.http_port: int = self._uvicorn.servers[0].sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.server.stop(None)
        self._uvicorn.should_exit = True
        await self._serving
        await self.sync.close()

    async def _websocket(self, websocket: WebSocket) -> None:
        async def admit_connection(connection: WebSocket) -> Admitted:
            return await admit(secret_of(connection.headers.get("authorization")), "")

        await worker_ws.serve_websocket(self.service, admit_connection, websocket)

    async def _http(self, request: Request) -> Response:
        try:
            token = secret_of(request.headers.get("authorization"))
            answer = await worker_http.exchange(
                self.service, await authenticate(token), await request.body()
            )
        except HoldfastError as error:
            return Response(json.dumps({"code": error.code}), status_code=error.http_status)
        return Response(answer.body(), status_code=answer.status)


class GrpcWorker:
    """A worker over gRPC."""

    def __init__(self, channel: grpc.aio.Channel, token: str) -> None:
        call = channel.stream_stream(
            f"/{worker_grpc.SERVICE}/Sync",
            request_serializer=pb.WorkerMessage.SerializeToString,
            response_deserializer=pb.GatewayMessage.FromString,
        )
        metadata = (("authorization", f"Bearer {token}"),) if token else ()
        self.stream: Any = call(metadata=metadata)

    async def send(self, message: wire.WorkerMessage) -> None:
        await self.stream.write(codec.encode_worker(message))

    async def receive(self) -> wire.GatewayMessage | None:
        try:
            message = await self.stream.read()
        except grpc.aio.AioRpcError:
            return None
        return None if message is grpc.aio.EOF else codec.decode_gateway(message)

    async def expect(self, kind: type[M]) -> M:
        message = await self.receive()
        assert isinstance(message, kind), message
        return message

    async def hello(self, **fields: Any) -> wire.Welcome:
        await self.send(wire.Hello(types=("work",), queues=("default",), **fields))
        return await self.expect(wire.Welcome)

    async def status(self) -> grpc.StatusCode:
        code: grpc.StatusCode = await self.stream.code()
        return code


@asynccontextmanager
async def grpc_worker(gateway: Gateway, token: str = "token-1") -> AsyncIterator[GrpcWorker]:
    async with grpc.aio.insecure_channel(f"127.0.0.1:{gateway.grpc_port}") as channel:
        yield GrpcWorker(channel, token)


class WsWorker:
    """A worker over WebSocket that speaks raw JSON."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection

    async def send(self, message: object) -> None:
        await self.connection.send(
            message if isinstance(message, str | bytes) else json.dumps(message)
        )

    async def receive(self) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(await self.connection.recv())
        async_messages.check("worker", answer)
        return answer

    async def ask(self, message: object) -> dict[str, Any]:
        await self.send(message)
        return await self.receive()

    async def closed(self) -> int:
        """The close code, after whatever was still on its way."""
        try:
            while True:
                await self.connection.recv()
        except websockets.ConnectionClosed as error:
            return error.rcvd.code if error.rcvd else 0


@asynccontextmanager
async def ws_worker(
    gateway: Gateway, token: str = "token-1", subprotocol: str = wire.PROTOCOL
) -> AsyncIterator[WsWorker]:
    async with websockets.connect(
        f"ws://127.0.0.1:{gateway.http_port}/api/v1/worker/ws",
        additional_headers={"Authorization": f"Bearer {token}"} if token else {},
        subprotocols=[websockets.Subprotocol(subprotocol)],
        proxy=None,
    ) as connection:
        yield WsWorker(connection)
