"""Callers that give up while another process holds up the store, and ask again: only what was being written
when its caller gave up is written."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final, TypeAlias

import apsw
import asyncpg
import pytest

from holdfast import TaskQueue

CALLERS: Final = 20
Ask: TypeAlias = Callable[[TaskQueue], Awaitable[object]]


async def one(queue: TaskQueue) -> object:
    return await queue.enqueue("noop")


async def one_with_tags(queue: TaskQueue) -> object:
    return await queue.enqueue("noop", tags=["late"], max_attempts=2)


async def some(queue: TaskQueue) -> object:
    return await queue.enqueue_many([{"type": "noop", "payload": {}}])


@asynccontextmanager
async def held(url: str) -> AsyncIterator[None]:
    """Another process holds what an enqueue needs."""
    if url.startswith("sqlite"):
        file = apsw.Connection(url.removeprefix("sqlite:///"))
        file.execute("BEGIN IMMEDIATE")
        yield
        file.close()
    else:
        connection = await asyncpg.connect(url)
        async with connection.transaction():
            await connection.execute("LOCK TABLE holdfast_feed IN ACCESS EXCLUSIVE MODE")
            yield
        await connection.close()


@pytest.mark.parametrize("ask", [one, one_with_tags, some])
async def test_tries_that_were_given_up_leave_no_copies(shared_url: str, ask: Ask) -> None:
    queue = TaskQueue(shared_url)

    @queue.task
    async def noop(payload: Any = None) -> None:
        pass

    async with queue.producer():
        await queue.enqueue("noop")
        async with held(shared_url):
            first = asyncio.create_task(queue.enqueue_many([{"type": "noop", "payload": {}}]))
            for _ in range(5):
                asked = [asyncio.create_task(_ask(ask, queue)) for _ in range(CALLERS)]
                for _ in range(20):  # They get as far as they can.
                    await asyncio.sleep(0)
                for task in asked:
                    task.cancel()
                await asyncio.wait(asked)
        await first
        await queue.enqueue("noop")
        assert await queue.get_queue_size() <= 3 + CALLERS


async def _ask(ask: Ask, queue: TaskQueue) -> None:
    await ask(queue)
