"""A gate at which handlers wait until the test opens it, across threads and processes.

A handler calls `wait_at(address, name)`. The test awaits `gate.arrived(...)` and then opens the gate.
The test needs no sleeps: a handler runs while it is connected to the gate, and has ended when its connection
is closed.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Self

SECONDS = 20.0


class Gate:
    """One server for any number of handlers. Each connection sends the name of its handler."""

    def __init__(self) -> None:
        self.address = ""
        self.names: list[str] = []
        """The names of all arrivals, in order."""
        self.present: dict[str, list[asyncio.StreamWriter]] = {}
        self._changed = asyncio.Condition()
        self._server: asyncio.Server | None = None
        self._is_open = False

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._stand, "127.0.0.1", 0)
        host, port = self._server.sockets[0].getsockname()[:2]
        self.address = f"{host}:{port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for writers in list(self.present.values()):
            for writer in writers:
                writer.close()
        await self._server.wait_closed()

    async def arrived(self, count: int = 1, name: str | None = None) -> list[str]:
        """Waits for `count` arrivals, of this name if given, and returns them."""

        def arrivals() -> list[str]:
            return [arrival for arrival in self.names if name in (None, arrival)]

        await self._until(lambda: len(arrivals()) >= count)
        return arrivals()

    async def left(self, name: str) -> None:
        """Waits until no handler of that name is at the gate."""
        await self._until(lambda: not self.present.get(name))

    def open(self, name: str | None = None) -> None:
        """Releases the waiting handlers of one name. Without a name, releases all, and later arrivals too."""
        if name is None:
            self._is_open = True
        for writer in [w for n, ws in self.present.items() if name in (None, n) for w in ws]:
            writer.write(b"go\n")

    async def _until(self, enough: Callable[[], bool]) -> None:
        async with asyncio.timeout(SECONDS), self._changed:
            await self._changed.wait_for(enough)

    async def _stand(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        name = (await reader.readline()).decode().strip()
        async with self._changed:
            self.names.append(name)
            self.present.setdefault(name, []).append(writer)
            self._changed.notify_all()
        if self._is_open:
            writer.write(b"go\n")
        try:
            await reader.read()
        except ConnectionError:
            pass  # The handler was killed at the gate.
        writer.close()
        async with self._changed:
            self.present[name].remove(writer)
            self._changed.notify_all()


def wait_at(address: str, name: str) -> None:
    """Waits at the gate, for threads and processes."""
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(f"{name}\n".encode())
        connection.recv(16)


async def async_wait_at(address: str, name: str) -> None:
    """Waits at the gate, for handlers in the event loop. Its cancellation closes the connection."""
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        writer.write(f"{name}\n".encode())
        await reader.readline()
    finally:
        writer.close()
