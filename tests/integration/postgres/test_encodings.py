"""A database whose encoding lacks characters of a task."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest

from holdfast import Task, TaskQueue
from holdfast.errors import InvalidInput
from proof.lab.servers import Postgres

NAME = "test_latin"
CREATE = f"CREATE DATABASE {NAME} ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0"
CALLERS = 64


@pytest.fixture
async def latin_dsn(pg_server: Postgres) -> AsyncIterator[str]:
    admin = await asyncpg.connect(pg_server.dsn())
    await admin.execute(CREATE)
    yield pg_server.dsn(NAME)
    await admin.execute(f"DROP DATABASE {NAME} WITH (FORCE)")
    await admin.close()


async def test_a_text_that_it_cannot_store_is_refused_alone(latin_dsn: str) -> None:
    queue = TaskQueue(latin_dsn)

    async def echo(task: Task) -> object:
        return task.payload

    queue.register_handler("echo", echo)
    async with queue:
        payloads = ["→" if n == 20 else f"é{n}" for n in range(CALLERS)]
        calls = [queue.enqueue("echo", payload) for payload in payloads]
        handles = await asyncio.gather(*calls, return_exceptions=True)
        for n, (handle, payload) in enumerate(zip(handles, payloads, strict=True)):
            if n == 20:
                assert isinstance(handle, InvalidInput)
                assert "encoding UTF8" in str(handle)
            else:
                assert not isinstance(handle, BaseException)
                assert await handle.result(timeout=30) == payload
