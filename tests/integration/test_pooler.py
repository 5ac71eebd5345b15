"""A pooler between Holdfast and PostgreSQL that does not fit is named, with what to do."""

from __future__ import annotations

import asyncio
import struct

import asyncpg
import pytest

from holdfast import TaskQueue
from holdfast.errors import BadConfig
from holdfast.store.postgres.driver import _not_opened

REFUSAL = "SFATAL\0C08P01\0Munsupported startup parameter: default_transaction_isolation\0\0"


async def test_a_pooler_that_refuses_the_settings_is_named() -> None:
    """It answers the startup packet as PgBouncer does without `ignore_startup_parameters`."""

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        [size] = struct.unpack("!i", await reader.readexactly(4))
        if size == 8:  # asks for TLS first
            await reader.readexactly(4)
            writer.write(b"N")
            [size] = struct.unpack("!i", await reader.readexactly(4))
        await reader.readexactly(size - 4)
        writer.write(b"E" + struct.pack("!i", len(REFUSAL) + 4) + REFUSAL.encode())
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        queue = TaskQueue(f"postgresql://app@127.0.0.1:{port}/app")
        with pytest.raises(BadConfig, match=r"pooler.*default_transaction_isolation.*directly"):
            await queue.open()


def test_a_pooler_in_transaction_mode_is_named() -> None:
    error = asyncpg.DuplicatePreparedStatementError("prepared statement already exists")
    found = _not_opened(error)
    assert isinstance(found, BadConfig)
    assert "session mode" in str(found)
