"""A proxy in front of PostgreSQL that reads the wire: it can lose the answer to one chosen statement.

    async with Wire(server_port) as wire:
        wire.lose("COMMIT")          # the next one is carried out, and its answer never comes
        ...
        assert wire.lost == ["COMMIT;"]

Promises: the server has answered, so what it was asked is done, before the connection is reset.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from contextlib import suppress
from typing import Self

HOST = "127.0.0.1"
PROTOCOL_3 = 3 << 16


class _Link:
    """One connection: what its statements are called, and whether its next answer is to be lost."""

    def __init__(self, client: asyncio.StreamWriter, server: asyncio.StreamWriter) -> None:
        self.client = client
        self.server = server
        self.texts: dict[bytes, str] = {}
        self.is_losing = False

    def reset(self) -> None:
        for end in (self.client, self.server):
            with suppress(OSError):
                linger = struct.pack("ii", 1, 0)
                end.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            end.transport.abort()


class Wire:
    """Use as an async context manager."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._links: set[_Link] = set()
        self._wanted: str | None = None
        self._skip = 0
        self._for_good = False
        self.lost: list[str] = []
        """The statements whose answers were lost."""
        self.port = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, HOST, 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for link in list(self._links):
            link.reset()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def dsn(self, of: str) -> str:
        """An address of the server, by way of this proxy."""
        head, _, database = of.rpartition("/")
        return f"{head.rpartition(':')[0]}:{self.port}/{database}"

    def lose(self, part: str, *, skip: int = 0, for_good: bool = False) -> None:
        """The answer to the next statement whose text has this part, after `skip` others; the server
        cannot be reached afterwards if `for_good`."""
        self._wanted, self._skip, self._for_good = part, skip, for_good

    def keep(self) -> None:
        """Lose nothing more."""
        self._wanted = None

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if self._for_good and self.lost:
            writer.transport.abort()
            return
        there, back = await asyncio.open_connection(HOST, self._target)
        link = _Link(writer, back)
        self._links.add(link)
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._asks(link, reader))
                both.create_task(self._answers(link, there))
        except* (OSError, asyncio.IncompleteReadError):
            link.reset()
        finally:
            self._links.discard(link)
            link.client.close()
            link.server.close()

    async def _asks(self, link: _Link, reader: asyncio.StreamReader) -> None:
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
            if text is not None and self._wanted is not None and self._wanted in text:
                self._skip -= 1
                if self._skip < 0:
                    self._wanted, link.is_losing = None, True
                    self.lost.append(text)
            link.server.write(kind + size + body)
            await link.server.drain()

    def _text(self, link: _Link, kind: bytes, body: bytes) -> str | None:
        """What is asked for, if this message asks for something to be done."""
        if kind == b"Q":
            return body.rstrip(b"\0").decode()
        if kind == b"P":
            name, text, _ = body.split(b"\0", 2)
            link.texts[name] = text.decode()
        if kind == b"B":
            return link.texts.get(body.split(b"\0", 2)[1])
        return None

    async def _answers(self, link: _Link, reader: asyncio.StreamReader) -> None:
        first = await reader.readexactly(1)
        link.client.write(first)
        if first != b"N":
            await self._rest_of(link, reader)
        while True:
            kind, size = await reader.readexactly(1), await reader.readexactly(4)
            body = await reader.readexactly(int.from_bytes(size) - 4)
            if link.is_losing:
                if kind == b"Z":
                    raise ConnectionResetError("the answer is lost")
                continue
            link.client.write(kind + size + body)
            await link.client.drain()

    async def _rest_of(self, link: _Link, reader: asyncio.StreamReader) -> None:
        size = await reader.readexactly(4)
        link.client.write(size + await reader.readexactly(int.from_bytes(size) - 4))
