"""A TCP proxy that can misbehave: cut (RST, new ones refused), half open (what is open goes silent and
stays open), slow (latency and bandwidth), deaf (a question gets through, its answer does not).

Promises: while it is sound, what it has taken it passes on whole and in order.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from contextlib import suppress
from dataclasses import dataclass
from typing import Self

CHUNK = 65_536
QUEUED_MAX = 64
HOST = "127.0.0.1"


@dataclass(frozen=True)
class Pace:
    """How a link passes bytes on."""

    latency_seconds: float = 0.0
    bytes_per_second: float = 0.0


class Link:
    """One connection through the proxy."""

    def __init__(self, client: asyncio.StreamWriter, server: asyncio.StreamWriter) -> None:
        self.ends = (client, server)
        self.flows = asyncio.Event()
        self.flows.set()
        self.is_deaf = False
        """Its next answer is lost, and the connection with it."""

    def reset(self) -> None:
        """RST to both sides: whatever was on its way is gone."""
        for end in self.ends:
            sock = end.get_extra_info("socket")
            if sock is not None:
                with suppress(OSError):
                    linger = struct.pack("ii", 1, 0)
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            end.transport.abort()


class Proxy:
    """Between the workers and the server; use as an async context manager."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._server: asyncio.Server | None = None
        self._links: set[Link] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._refuses = False
        self._pace = Pace()
        self._loses_next = False
        self.swallowed = 0
        """Answers that were lost."""
        self.port = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, HOST, 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()
        if self._tasks:
            await asyncio.wait(self._tasks)

    @property
    def links(self) -> int:
        """Connections that are open."""
        return len(self._links)

    # -- faults --------------------------------------------------------------------------------------

    def cut(self) -> None:
        """Resets every connection and refuses new ones until `heal`."""
        self._refuses = True
        for link in list(self._links):
            link.flows.set()
            link.reset()

    def freeze(self) -> None:
        """What is open now stays open and passes nothing on; new connections are sound."""
        for link in self._links:
            link.flows.clear()

    def slow(self, *, latency_seconds: float, bytes_per_second: float) -> None:
        """Every chunk is late and the link is narrow."""
        self._pace = Pace(latency_seconds, bytes_per_second)

    def lose_answer(self) -> None:
        """What is asked next gets through; whatever comes back is lost, and the connection is reset."""
        self._loses_next = True

    def heal(self) -> None:
        """Takes connections again, at full speed. Frozen ones stay frozen: a half-open one never heals."""
        self._refuses = False
        self._pace = Pace()

    # -- passing on ----------------------------------------------------------------------------------

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if self._refuses:
            Link(writer, writer).reset()
            return
        try:
            there, back = await asyncio.open_connection(HOST, self._target)
        except OSError:
            Link(writer, writer).reset()
            return
        link = Link(writer, back)
        self._links.add(link)
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._pump(link, reader, back, asks=True))
                both.create_task(self._pump(link, there, writer, asks=False))
        except* (OSError, asyncio.IncompleteReadError):
            link.reset()
        finally:
            self._links.discard(link)
            for end in link.ends:
                end.close()

    async def _pump(
        self, link: Link, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, asks: bool
    ) -> None:
        """Reads as things come and passes each on when it is due: latency does not cost bandwidth."""
        due: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(QUEUED_MAX)
        async with asyncio.TaskGroup() as both:
            both.create_task(self._read(reader, due))
            both.create_task(self._write(link, writer, due, asks=asks))

    async def _read(
        self, reader: asyncio.StreamReader, due: asyncio.Queue[tuple[float, bytes]]
    ) -> None:
        loop = asyncio.get_running_loop()
        narrow_until = 0.0
        while True:
            data = await reader.read(CHUNK)
            pace = self._pace
            narrow_until = max(narrow_until, loop.time())
            if pace.bytes_per_second:
                narrow_until += len(data) / pace.bytes_per_second
            await due.put((narrow_until + pace.latency_seconds, data))
            if not data:
                return

    async def _write(
        self,
        link: Link,
        writer: asyncio.StreamWriter,
        due: asyncio.Queue[tuple[float, bytes]],
        *,
        asks: bool,
    ) -> None:
        loop = asyncio.get_running_loop()
        while True:
            at, data = await due.get()
            if (pause := at - loop.time()) > 0:
                await asyncio.sleep(pause)
            await link.flows.wait()  # also the end of a stream stays unheard of
            if not data:
                break
            if link.is_deaf and not asks:
                self.swallowed += 1
                link.reset()
                return
            if asks and self._loses_next:
                self._loses_next, link.is_deaf = False, True
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
