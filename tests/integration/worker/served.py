"""A whole server in this process, and workers that connect to it."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import grpc
import grpc.aio
import httpx2
import websockets

from holdfast import TaskQueue
from holdfast.core.token import TokenKind
from holdfast.core.worker import wire
from holdfast.gateway.server import Listening, Server
from holdfast.gateway.settings import ServerSettings
from holdfast.queue.by import By
from holdfast.store.store import Store
from holdfast.sync.access.tokens import NewToken, Tokens
from tests.integration.worker.support import GrpcWorker, WsWorker

ADMIN = "hf_admin_" + "c" * 40


class Site:
    """A server that runs."""

    def __init__(self, server: Server, listening: Listening, store: Store) -> None:
        self.server = server
        self.listening = listening
        self.store = store
        self.tokens = Tokens(store)

    async def node_token(self, node: str, **options: Any) -> tuple[str, str]:
        """The id and the secret of a node's credential."""
        new = NewToken(name=node, roles=("worker",), kind=TokenKind.NODE, node_id=node, **options)
        made = await self.tokens.create(new, By("test"))
        return made.token.id, made.secret

    def client(self, token: str = ADMIN, **options: Any) -> httpx2.AsyncClient:
        headers = {"Authorization": f"Bearer {token}"}
        return httpx2.AsyncClient(base_url=self.listening.url, headers=headers, **options)

    @asynccontextmanager
    async def grpc(
        self, token: str, credentials: grpc.ChannelCredentials | None = None
    ) -> AsyncIterator[GrpcWorker]:
        address = f"127.0.0.1:{self.listening.worker_transports['grpc']}"
        if credentials is None:
            channel = grpc.aio.insecure_channel(address)
        else:
            channel = grpc.aio.secure_channel(address, credentials)
        async with channel:
            yield GrpcWorker(channel, token)

    @asynccontextmanager
    async def websocket(
        self, token: str = "", query: str = "", **headers: str
    ) -> AsyncIterator[WsWorker]:
        if token:
            headers["Authorization"] = f"Bearer {token}"
        async with websockets.connect(
            self.listening.url.replace("http", "ws") + f"/api/v1/worker/ws{query}",
            additional_headers=headers,
            subprotocols=[websockets.Subprotocol(wire.PROTOCOL)],
            proxy=None,
        ) as connection:
            yield WsWorker(connection)


@asynccontextmanager
async def open_site(url: str, *, loops: bool = False, **settings: Any) -> AsyncIterator[Site]:
    queue = TaskQueue(url)
    queue.register_handler("work", _work)
    given = {"port": 0, "admin_token": ADMIN, **settings}
    server = Server(queue, ServerSettings(**given), loops=loops)
    ready: asyncio.Future[Listening] = asyncio.get_running_loop().create_future()
    running = asyncio.create_task(server.run(ready.set_result))
    waiting: set[asyncio.Future[Any]] = {running, ready}
    await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    if running.done():
        await running
    try:
        yield Site(server, ready.result(), (await queue.open()).store)
    finally:
        server.stop()
        await running


async def _work(_: object) -> None:
    return None


class Certificate(NamedTuple):
    """The files of a certificate and of its key."""

    certificate: Path
    key: Path


def make_ca(folder: Path, name: str = "ca") -> Certificate:
    """A certificate authority."""
    made = Certificate(folder / f"{name}.pem", folder / f"{name}.key")
    _openssl(
        *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"),
        *("-nodes", "-days", "2", "-subj", f"/CN={name}"),
        *("-keyout", str(made.key), "-out", str(made.certificate)),
    )
    return made


def make_certificate(
    folder: Path, ca: Certificate, name: str, names: str = "DNS:localhost,IP:127.0.0.1"
) -> Certificate:
    """A certificate signed by the authority, for this machine or for other names."""
    made = Certificate(folder / f"{name}.pem", folder / f"{name}.key")
    _openssl(
        *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"),
        *("-nodes", "-days", "2", "-subj", f"/CN={name}"),
        *("-addext", f"subjectAltName={names}"),
        *("-addext", "basicConstraints=critical,CA:FALSE"),
        *("-CA", str(ca.certificate), "-CAkey", str(ca.key)),
        *("-keyout", str(made.key), "-out", str(made.certificate)),
    )
    return made


def _openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True, timeout=30)
