"""Servers and remote workers as processes, and queues that use them."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

import httpx2

from holdfast import TaskQueue
from holdfast.app import use_gateway
from holdfast.queue.queue import Queue
from holdfast.remote.engine import RemoteEngine
from proof.lab.proxy import Proxy
from tests.integration.remote import app
from tests.launcher import Child, launcher

ADMIN = "hf_admin_0123456789abcdef0123456789"
SECONDS = 60.0
"""A bound for what hangs, not a measure."""
ROOT = Path(__file__).resolve().parents[3]


TRANSPORTS = ("holdfast", "grpc")
"""Schemes of the address of a gateway: WebSocket, gRPC."""


class Server:
    """A gateway process."""

    def __init__(self, child: Child, url: str, grpc_port: int, log: Path) -> None:
        self.child = child
        self.url = url
        self.port = int(url.rpartition(":")[2])
        self.grpc_port = grpc_port
        self.log = log
        self.transport = "holdfast"

    @property
    def address(self) -> str:
        return f"{self.transport}://127.0.0.1:{self.port}"

    async def kill(self) -> None:
        self.child.kill()
        await self.child.ended()

    async def ask(self, method: str, path: str, **options: Any) -> Any:
        headers = {"Authorization": f"Bearer {ADMIN}"}
        async with httpx2.AsyncClient(base_url=self.url, headers=headers) as client:
            answer = await client.request(method, f"/api/v1{path}", **options)
            assert answer.is_success, answer.text
            return answer.json()

    async def joining(self, uses: int = 1) -> str:
        """A join token."""
        body = {"uses": uses, "reason": "test"}
        return str((await self.ask("POST", "/join-tokens", json=body))["token"])


class Network:
    """The connections of workers to a gateway, which fail on command, whatever their transport."""

    def __init__(self, gateway: Server) -> None:
        self._gateway = gateway
        self._proxies = (Proxy(gateway.port), Proxy(gateway.grpc_port))

    async def __aenter__(self) -> Self:
        for proxy in self._proxies:
            await proxy.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        for proxy in self._proxies:
            await proxy.__aexit__()

    @property
    def address(self) -> str:
        http, grpc = self._proxies
        return f"{self._gateway.transport}://127.0.0.1:{http.port}?grpc_port={grpc.port}"

    def cut(self) -> None:
        for proxy in self._proxies:
            proxy.cut()

    def heal(self) -> None:
        for proxy in self._proxies:
            proxy.heal()

    def freeze(self) -> None:
        for proxy in self._proxies:
            proxy.freeze()


def environ(**more: str) -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
    return own | {"PYTHONPATH": str(ROOT)} | more


@asynccontextmanager
async def server(
    folder: Path, url: str, *, port: int = 0, grpc_port: int = 0
) -> AsyncIterator[Server]:
    log = folder / f"server-{port}.log"
    command = ["server", "--port", str(port), "--url", url, "--grpc-port", str(grpc_port)]
    env = environ(HOLDFAST_ADMIN_TOKEN=ADMIN)
    with log.open("a") as stderr, launcher().running(command, folder, env, stderr) as child:
        line = await child.first_line()
        assert line, log.read_text()
        if grpc_port == 0:
            grpc_port = int(line.rpartition("gRPC on port ")[2].rstrip(")\n"))
        yield Server(child, line.split()[3], grpc_port, log)


@asynccontextmanager
async def worker(
    folder: Path, gateway: str, token: str | None, *options: str, ready: str = "ready: pid"
) -> AsyncIterator[asyncio.subprocess.Process]:
    """`holdfast worker --gateway`, when it has logged `ready`."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "holdfast", "worker", "tests.integration.remote.app:queue", *options),
        cwd=folder,
        env=environ(
            HOLDFAST_GATEWAY=gateway, **({} if token is None else {"HOLDFAST_TOKEN": token})
        ),
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        await said(process, ready)
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def said(process: asyncio.subprocess.Process, text: str) -> str:
    """Waits until the process has logged a line with this text."""
    assert process.stderr is not None
    lines = []
    while line := (await process.stderr.readline()).decode():
        lines.append(line)
        if text in line:
            return line
    raise AssertionError("".join(lines))


def queue_with_handlers(gateway: str, token: str = ADMIN, **settings: Any) -> Queue:
    """A queue with the handlers of the application, through a gateway."""
    queue = TaskQueue("sqlite://", **({"lease_seconds": 6.0, "base_retry_delay": 0.05} | settings))
    for handler in app.queue.definitions.handlers:
        queue.definitions.handlers.add(handler)
    use_gateway(queue, gateway, token)
    return queue


def engine_of(queue: Queue) -> RemoteEngine:
    engine: RemoteEngine = queue.parts.runtime.engine  # type: ignore[attr-defined]
    return engine


async def marked(name: str) -> None:
    """Waits until a handler of this process has set a mark."""
    await asyncio.wait_for(app.marks[name].wait(), SECONDS)
