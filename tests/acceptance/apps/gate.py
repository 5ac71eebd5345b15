"""Handlers that wait until the test lets them go, across threads and processes.

A handler calls `wait_at(address, name)`; the test awaits `gate.arrived(...)` and then opens it.
Without sleeps, the test knows that a handler runs, because it is at the gate, and that it has ended, because
its connection is closed.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Self

SECONDS = 20.0


class Gate:
    """One server for any number of handlers; each connection names who stands there."""

    def __init__(self) -> None:
        self.address = ""
        self.names: list[str] = []
        """Everyone who ever arrived, in order."""
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
        """Until `count` arrivals (of that name) have been seen."""

        def found() -> list[str]:
            return [each for each in self.names if name in (None, each)]

        await self._until(lambda: len(found()) >= count)
        return found()

    async def left(self, name: str) -> None:
        """Waits until no handler of that name is at the gate."""
        await self._until(lambda: not self.present.get(name))

    def open(self, name: str | None = None) -> None:
        """Lets go who stands here: those of a name, or all, and all who come later."""
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
            pass  # killed while it stood here
        writer.close()
        async with self._changed:
            self.present[name].remove(writer)
            self._changed.notify_all()


def wait_at(address: str, name: str) -> None:
    """For threads and processes."""
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(f"{name}\n".encode())
        connection.recv(16)


async def async_wait_at(address: str, name: str) -> None:
    """For handlers in the event loop; cancelling it closes the connection."""
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        writer.write(f"{name}\n".encode())
        await reader.readline()
    finally:
        writer.close()
