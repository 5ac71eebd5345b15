"""TCP proxies in front of a server that fail on command.

`Proxy` breaks the network: cut (RST, new connections refused), half open (open connections go silent and
stay open), slow (latency and bandwidth), a lost answer. `Wire` reads PostgreSQL's protocol and loses the
answer to one chosen statement:

    async with Wire(server_port) as wire:
        wire.lose("COMMIT")          # the next one is carried out, and its answer never comes
        ...
        assert wire.lost == ["COMMIT;"]

Promises: while a proxy is sound, it passes on whole and in order what it has taken. Before `Wire` resets a
connection the server has answered, so the statement was carried out.
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
PROTOCOL_3 = 3 << 16


@dataclass(frozen=True)
class Pace:
    """How a link passes bytes on."""

    latency_seconds: float = 0.0
    bytes_per_second: float = 0.0


class Link:
    """One connection through a proxy."""

    def __init__(self, client: asyncio.StreamWriter, server: asyncio.StreamWriter) -> None:
        self.client = client
        self.server = server
        self.flows = asyncio.Event()
        self.flows.set()
        self.loses_answer = False
        """Its next answer is lost, and the connection with it."""
        self.texts: dict[bytes, str] = {}
        """Statements by the names under which the client has prepared them."""

    def reset(self) -> None:
        """RST to both sides: bytes on their way are lost."""
        for end in (self.client, self.server):
            sock = end.get_extra_info("socket")
            if sock is not None:
                with suppress(OSError):
                    linger = struct.pack("ii", 1, 0)
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            end.transport.abort()


class Relay:
    """Accepts connections and pumps both directions; a subclass says how. An async context manager."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._server: asyncio.Server | None = None
        self._links: set[Link] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._refuses = False
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

    def dsn(self, of: str) -> str:
        """The address of the server, through this proxy."""
        head, _, database = of.rpartition("/")
        return f"{head.rpartition(':')[0]}:{self.port}/{database}"

    def cut(self) -> None:
        """Resets every connection and refuses new ones."""
        self._refuses = True
        for link in list(self._links):
            link.flows.set()
            link.reset()

    def reset_one(self, draw: float) -> bool:
        """Resets one connection, chosen by a number of [0, 1). Returns whether there was one."""
        links = list(self._links)
        if links:
            links[int(draw * len(links))].reset()
        return bool(links)

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
                both.create_task(self._requests(link, reader))
                both.create_task(self._answers(link, there))
        except* (OSError, asyncio.IncompleteReadError):
            link.reset()
        finally:
            self._links.discard(link)
            link.client.close()
            link.server.close()

    async def _requests(self, link: Link, reader: asyncio.StreamReader) -> None:
        """Forwards from the client to the server."""
        raise NotImplementedError

    async def _answers(self, link: Link, reader: asyncio.StreamReader) -> None:
        """Forwards from the server to the client."""
        raise NotImplementedError


class Proxy(Relay):
    """A proxy for network faults."""

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self._pace = Pace()
        self._loses_next = False
        self.swallowed = 0
        """Answers that were lost."""

    def freeze(self) -> None:
        """Open connections stay open and forward nothing; new connections work."""
        for link in self._links:
            link.flows.clear()

    def slow(self, *, latency_seconds: float, bytes_per_second: float) -> None:
        """Adds latency and limits the bandwidth."""
        self._pace = Pace(latency_seconds, bytes_per_second)

    def lose_answer(self) -> None:
        """The next request gets through; its answer is lost, and the connection is reset."""
        self._loses_next = True

    def heal(self) -> None:
        """Accepts connections again, at full speed. Frozen connections stay frozen: a half-open one never
        heals."""
        self._refuses = False
        self._pace = Pace()

    async def _requests(self, link: Link, reader: asyncio.StreamReader) -> None:
        await self._pump(link, reader, link.server, is_request=True)

    async def _answers(self, link: Link, reader: asyncio.StreamReader) -> None:
        await self._pump(link, reader, link.client, is_request=False)

    async def _pump(
        self,
        link: Link,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *,
        is_request: bool,
    ) -> None:
        """Reads chunks as they arrive and forwards each when it is due: latency does not cost bandwidth."""
        due: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(QUEUED_MAX)
        async with asyncio.TaskGroup() as both:
            both.create_task(self._read(reader, due))
            both.create_task(self._write(link, writer, due, is_request=is_request))

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
        is_request: bool,
    ) -> None:
        loop = asyncio.get_running_loop()
        while True:
            at, data = await due.get()
            if (pause := at - loop.time()) > 0:
                await asyncio.sleep(pause)
            await link.flows.wait()  # a frozen link does not forward the end of a stream either
            if not data:
                break
            if link.loses_answer and not is_request:
                self.swallowed += 1
                link.reset()
                return
            if is_request and self._loses_next:
                self._loses_next, link.loses_answer = False, True
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()


class Wire(Relay):
    """In front of PostgreSQL; reads the messages of both sides."""

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self._part: str | None = None
        self._skip = 0
        self._for_good = False
        self.lost: list[str] = []
        """The statements whose answers were lost."""

    def lose(self, part: str, *, skip: int = 0, for_good: bool = False) -> None:
        """Loses the answer to the next statement whose text contains `part`, after `skip` others;
        `for_good`: the server cannot be reached afterwards."""
        self._part, self._skip, self._for_good = part, skip, for_good

    def keep(self) -> None:
        """Loses nothing more."""
        self._part = None

    async def _requests(self, link: Link, reader: asyncio.StreamReader) -> None:
        while True:  # Requests for encryption, which the server refuses, then the start.
            size = await reader.readexactly(4)
            body = await reader.readexactly(int.from_bytes(size) - 4)
            link.server.write(size + body)
            if int.from_bytes(body[:4]) == PROTOCOL_3:
                break
        while True:
            kind, size = await reader.readexactly(1), await reader.readexactly(4)
            body = await reader.readexactly(int.from_bytes(size) - 4)
            text = self._text(link, kind, body)
            if text is not None and self._part is not None and self._part in text:
                self._skip -= 1
                if self._skip < 0:
                    self._part, link.loses_answer = None, True
                    self._refuses = self._for_good
                    self.lost.append(text)
            link.server.write(kind + size + body)
            await link.server.drain()

    def _text(self, link: Link, kind: bytes, body: bytes) -> str | None:
        """The statement that a message asks the server to execute, if any."""
        if kind == b"Q":
            return body.rstrip(b"\0").decode()
        if kind == b"P":
            name, text, _ = body.split(b"\0", 2)
            link.texts[name] = text.decode()
        if kind == b"B":
            return link.texts.get(body.split(b"\0", 2)[1])
        return None

    async def _answers(self, link: Link, reader: asyncio.StreamReader) -> None:
        first = await reader.readexactly(1)
        link.client.write(first)
        if first != b"N":
            await self._rest_of(link, reader)
        while True:
            kind, size = await reader.readexactly(1), await reader.readexactly(4)
            body = await reader.readexactly(int.from_bytes(size) - 4)
            if link.loses_answer:
                if kind == b"Z":
                    raise ConnectionResetError("the answer is lost")
                continue
            link.client.write(kind + size + body)
            await link.client.drain()

    async def _rest_of(self, link: Link, reader: asyncio.StreamReader) -> None:
        size = await reader.readexactly(4)
        link.client.write(size + await reader.readexactly(int.from_bytes(size) - 4))
