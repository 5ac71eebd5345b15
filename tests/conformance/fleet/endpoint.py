"""An endpoint of webhooks on this machine, which a test tells how to answer."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec


class Received(msgspec.Struct):
    """A request as it came."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> dict[str, Any]:
        value: dict[str, Any] = msgspec.json.decode(self.body)
        return value


class Endpoint:
    """Records requests. `answers` are the statuses of the next ones, then 204."""

    def __init__(self) -> None:
        self.received: list[Received] = []
        self.answers: list[int] = []
        self.extra = ""
        """Further lines of the head of an answer."""
        self.holds = asyncio.Event()
        """Answers come while it is set."""
        self.holds.set()
        self.port = 0
        self._changed = asyncio.Condition()

    async def has_received(self, count: int) -> None:
        """Waits for requests."""
        async with self._changed:
            await self._changed.wait_for(lambda: len(self.received) >= count)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook?x=1"

    @property
    def types(self) -> list[str]:
        return [received.json["type"] for received in self.received]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            first, *lines = head.rstrip().split("\r\n")
            headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in lines)}
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            self.received.append(Received(first.split()[1], headers, body))
            async with self._changed:
                self._changed.notify_all()
            await self.holds.wait()
            status = self.answers.pop(0) if self.answers else 204
            text = b"" if status == 204 else b"because \x1b[31m"
            writer.write(
                f"HTTP/1.1 {status} X\r\ncontent-length: {len(text)}\r\n{self.extra}\r\n".encode()
            )
            writer.write(text)
            await writer.drain()
        finally:
            writer.close()


@asynccontextmanager
async def open_endpoint(tls: ssl.SSLContext | None = None) -> AsyncIterator[Endpoint]:
    endpoint = Endpoint()
    server = await asyncio.start_server(endpoint.serve, "127.0.0.1", 0, ssl=tls)
    endpoint.port = server.sockets[0].getsockname()[1]
    try:
        yield endpoint
    finally:
        endpoint.holds.set()
        server.close()
        await server.wait_closed()
