"""A gateway of one host: the rules of `agent_world.Server` over HTTP, for agents in other processes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from holdfast.clock import SystemClock
from holdfast.core.fleet.agents.wire import AgentEnrol, AgentEnrolled, AgentStart, AgentSync
from holdfast.errors import HoldfastError
from tests.unit.agent.agent_world import Server

JOIN = "join-token"
CREDENTIAL = "agent-credential"


class Gateway:
    """Serves `/agent/v1` for one host."""

    def __init__(self) -> None:
        self.server = Server(SystemClock())
        self.enrolled: list[AgentEnrol] = []
        self._changed = asyncio.Event()
        self.server.judged = self._changed.set
        self.port = 0
        self.join = JOIN

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def until(self, is_true: Any) -> None:
        while not is_true():
            self._changed.clear()
            await self._changed.wait()

    async def answer(self, path: str, token: str, body: bytes) -> tuple[int, object]:
        expected = self.join if path.endswith("/enrol") else CREDENTIAL
        if token != f"Bearer {expected}":
            return 401, {"code": "unauthenticated", "detail": "the token does not count"}
        try:
            return 200, await self._do(path.rpartition("/")[2], body)
        except HoldfastError as error:
            return error.http_status, {"code": error.code, "detail": str(error)}

    async def _do(self, name: str, body: bytes) -> object:
        if name == "enrol":
            self.enrolled.append(msgspec.json.decode(body, type=AgentEnrol))
            return AgentEnrolled(
                host_id="hst_1",
                agent_id="hst_1",
                credential=CREDENTIAL,
                incarnation=1,
                heartbeat_seconds=5.0,
                server_epoch="e1",
            )
        if name == "start":
            return await self.server.start(msgspec.json.decode(body, type=AgentStart))
        return await self.server.sync(msgspec.json.decode(body, type=AgentSync))

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                lines = head.decode().split("\r\n")
                headers = {
                    name.lower(): value.strip()
                    for name, _, value in (line.partition(":") for line in lines[1:] if line)
                }
                body = await reader.readexactly(int(headers.get("content-length", "0")))
                path, token = lines[0].split(" ")[1], headers.get("authorization", "")
                status, value = await self.answer(path, token, body)
                data = msgspec.json.encode(value)
                writer.write(
                    b"HTTP/1.1 %d X\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
                    % (status, len(data))
                )
                writer.write(data)
                await writer.drain()
                self._changed.set()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def gateway() -> AsyncIterator[Gateway]:
    made = Gateway()
    serving = await asyncio.start_server(made.serve, "127.0.0.1", 0, limit=2**24)
    made.port = serving.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        serving.close()
