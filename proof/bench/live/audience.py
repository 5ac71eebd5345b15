"""A process with many clients, driven by JSON lines. Standard library only: it runs in every environment.

A WebSocket client counts the text frames that start with a prefix and notes when each came. It decodes
nothing, so that the server is what is measured.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any

OPEN_AT_ONCE = 50
SAMPLED = 100
"""Clients that note the arrival of each frame."""
MASK = b"\0\0\0\0"


def frame(opcode: int, data: bytes) -> bytes:
    """A masked frame. The mask of zeros leaves the data as it is."""
    size = len(data)
    if size < 126:
        return bytes((0x80 | opcode, 0x80 | size)) + MASK + data
    return bytes((0x80 | opcode, 0xFE)) + size.to_bytes(2, "big") + MASK + data


class Client(asyncio.Protocol):
    """One WebSocket."""

    def __init__(self, audience: Audience, setting: dict[str, Any], *, sampled: bool) -> None:
        """Not connected yet."""
        self.audience, self.setting, self.sampled = audience, setting, sampled
        self.prefix, self.ready = setting["prefix"].encode(), setting["ready"].encode()
        self.buffer, self.is_open = b"", False
        self.count = 0
        self.arrivals: list[float] = []
        self.opened = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: Any) -> None:
        """Asks for the upgrade."""
        self.transport = transport
        lines = [f"GET {self.setting['path']} HTTP/1.1", "Host: 127.0.0.1", "Upgrade: websocket"]
        lines += ["Connection: Upgrade", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="]
        lines += ["Sec-WebSocket-Version: 13", *self.setting.get("headers", ()), "", ""]
        transport.write("\r\n".join(lines).encode())

    def data_received(self, data: bytes) -> None:
        """Splits the stream into frames."""
        data = self.buffer + data if self.buffer else data
        if not self.is_open:
            head, end, data = data.partition(b"\r\n\r\n")
            if not end:
                self.buffer = head
                return
            assert b" 101 " in head.split(b"\r\n")[0], head
            self.is_open = True
            for text in self.setting["hello"]:
                self.transport.write(frame(1, text.encode()))
            if not self.ready:
                self._is_ready()
        at, end_at = 0, len(data)
        while end_at - at >= 2:
            size, start = data[at + 1], at + 2
            if size == 126:
                size, start = int.from_bytes(data[at + 2 : at + 4], "big"), at + 4
            elif size == 127:
                size, start = int.from_bytes(data[at + 2 : at + 10], "big"), at + 10
            if start + size > end_at or start > end_at:
                break
            self._frame(data[at] & 15, data, start, start + size)
            at = start + size
        self.buffer = data[at:]

    def _frame(self, opcode: int, data: bytes, start: int, end: int) -> None:
        if opcode == 1 and data.startswith(self.prefix, start):
            self.count += 1
            if self.sampled:
                self.arrivals.append(time.monotonic())
            if self.count == self.audience.target:
                self.audience.reach()
        elif opcode == 1:
            if self.ready and data.startswith(self.ready, start):
                self._is_ready()
            elif data[start:end] == b"2":  # a ping of Engine.IO
                self.transport.write(frame(1, b"3"))
        elif opcode == 9:
            self.transport.write(frame(10, data[start:end]))

    def _is_ready(self) -> None:
        if not self.opened.done():
            self.opened.set_result(None)

    def connection_lost(self, error: Exception | None) -> None:
        """A lost connection fails the measurement, unless it was dropped on purpose."""
        if not self.opened.done():
            self.opened.set_exception(error or ConnectionError("closed"))
        elif self in self.audience.clients:
            self.audience.is_broken = True
            self.audience.done.set()


class Audience:
    """All clients, and what the harness asks of them."""

    def __init__(self) -> None:
        """Without clients."""
        self.clients: list[Client] = []
        self.target = self.reached = 0
        self.is_broken = False
        self.done = asyncio.Event()

    def reach(self) -> None:
        """One more client has all frames."""
        self.reached += 1
        if self.reached >= len(self.clients):
            self.done.set()

    async def _connect(self, setting: dict[str, Any], *, sampled: bool) -> Client:
        loop = asyncio.get_running_loop()
        made = Client(self, setting, sampled=sampled)
        await loop.create_connection(lambda: made, "127.0.0.1", setting["port"])
        await made.opened
        return made

    async def open(self, n: int, setting: dict[str, Any], expect: int = 0) -> float:
        """Opens clients; each frame counts from the start. Returns when all are ready, the time."""
        self.target, self.reached = expect, 0
        self.done.clear()
        slots = asyncio.Semaphore(OPEN_AT_ONCE)

        async def one(number: int) -> Client:
            async with slots:
                return await self._connect(setting, sampled=number % max(1, n // SAMPLED) == 0)

        self.clients = list(await asyncio.gather(*(one(number) for number in range(n))))
        return time.monotonic()

    async def stall(self, setting: dict[str, Any]) -> None:
        """Opens one client that reads nothing any more."""
        self.stalled = await self._connect(setting, sampled=False)
        self.stalled.transport.pause_reading()

    async def wait(self, count: int) -> float:
        """Until each client has this many frames. Returns the time."""
        self.target = count
        self.reached = sum(client.count >= count for client in self.clients)
        self.done.clear()
        if self.reached < len(self.clients):
            await self.done.wait()
        if self.is_broken:
            raise ConnectionError("a client has lost its connection")
        return time.monotonic()

    async def latencies(self, sent: list[float], first: int) -> list[float]:
        """Milliseconds from each time to the arrival of the frame with this number, sorted."""
        found = [
            (client.arrivals[first + nth] - at) * 1_000
            for client in self.clients
            if client.sampled
            for nth, at in enumerate(sent)
        ]
        found.sort()
        return [found[int((len(found) - 1) * part)] for part in (0.5, 0.95, 0.99)]

    async def drop(self) -> None:
        """Aborts all connections."""
        clients, self.clients = self.clients, []
        for client in clients:
            client.transport.abort()
        await asyncio.sleep(0.1)

    async def http(self, n: int, callers: int, port: int, request: str) -> float:
        """Sends a request over and over on kept connections. Returns the seconds."""
        numbers = iter(range(n))
        data = request.encode()

        async def caller() -> None:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            for _ in numbers:
                writer.write(data)
                head = await reader.readuntil(b"\r\n\r\n")
                assert head.split(b" ", 2)[1] in (b"200", b"201"), head
                size = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
                await reader.readexactly(size)
            writer.close()

        started = time.monotonic()
        await asyncio.gather(*(caller() for _ in range(callers)))
        return time.monotonic() - started


async def main() -> None:
    """Answers one line after another."""
    audience, loop = Audience(), asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        request = json.loads(line)
        answer = await getattr(audience, request.pop("op"))(**request)
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    try:
        import uvloop

        uvloop.run(main())
    except ImportError:
        asyncio.run(main())
