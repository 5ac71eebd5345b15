"""A child whose row another transaction holds, while its parent ends: the engine goes on with everything
else.

Every wait ends with the event that it waits for; a fault makes it time out.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TypeAlias

import asyncpg
import pytest

from holdfast import Context, Status, TaskQueue

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
HOLDS = {
    "a foreign key": "INSERT INTO theirs VALUES ($1)",
    "a row lock": "SELECT FROM holdfast_task WHERE id = $1 FOR UPDATE",
}


async def work(value: int = 0) -> int:
    return value


@pytest.mark.parametrize("hold", HOLDS)
async def test_a_held_child_delays_no_end_of_a_task(
    pg_dsn: str, connection: Connection, hold: str, caplog: pytest.LogCaptureFixture
) -> None:
    may_end = asyncio.Event()

    async def parent() -> str:
        await may_end.wait()
        return "done"

    queue = TaskQueue(pg_dsn, lease_seconds=1.5, max_workers=4)
    queue.task(work)
    queue.task(parent)
    caplog.set_level(logging.WARNING, logger="holdfast")
    async with queue, asyncio.timeout(20):
        first = await queue.enqueue("parent")
        child = await queue.enqueue("work", {"value": 7}, depends_on=[first])
        await connection.execute("CREATE TABLE theirs (id text REFERENCES holdfast_task(id))")
        async with connection.transaction():
            await connection.execute(HOLDS[hold], child.id)
            may_end.set()
            assert await first.result(1.5) == "done"
            others = [await queue.enqueue("work", {"value": n}) for n in range(20)]
            assert [await task.result(1.5) for task in others] == list(range(20))
            if hold == "a foreign key":
                assert await child.result(1.5) == 7, (
                    "such a transaction needs no more than that it stays"
                )
            else:
                await wait_for_log(child.id, caplog)
                why = await queue.why(child.id)
                assert [reason.code for reason in why.reasons] == ["held"]
        assert await child.result(3) == 7
        ended = [await queue.get_task(task.id) for task in (first, child, *others)]
        assert {(t.attempts, t.deaths, t.fence) for t in ended if t} == {(1, 0, 1)}
    assert "unavailable" not in caplog.text


async def wait_for_log(task_id: str, caplog: pytest.LogCaptureFixture) -> None:
    """Waits until the log names the held row."""
    while f"another transaction holds task {task_id}" not in caplog.text:
        await asyncio.wait([asyncio.ensure_future(asyncio.to_thread(lambda: None))])


async def test_a_child_in_an_open_step_does_not_block_the_end_of_its_parent(pg_dsn: str) -> None:
    """Replayed alone, it runs a step in its transaction while its parent, replayed too, ends."""
    fails, inside = True, asyncio.Event()
    may_run, may_commit, parent_may_end = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def parent() -> str:
        if fails:
            raise ValueError("no")
        await parent_may_end.wait()
        return "done"

    async def child(ctx: Context) -> None:
        await may_run.wait()
        mine = await asyncpg.connect(pg_dsn)
        try:
            async with mine.transaction():
                await ctx.once("step", effect, tx=mine)
                inside.set()
                await may_commit.wait()
        finally:
            await mine.close()

    async def effect(_turn: object) -> int:
        return 1

    queue = TaskQueue(pg_dsn, lease_seconds=1.5, max_workers=4, default_max_attempts=1)
    for each in (work, parent, child):
        queue.task(each)
    async with queue, asyncio.timeout(20):
        first = await queue.enqueue("parent")
        second = await queue.enqueue("child", depends_on=[first])
        assert (await second.wait(5)).status is Status.FAILED
        fails = False
        await queue.replay_dead_task(second.id)
        await queue.replay_dead_task(first.id)
        may_run.set()
        await inside.wait()
        parent_may_end.set()
        assert await first.result(1.5) == "done"
        others = [await queue.enqueue("work", {"value": n}) for n in range(20)]
        assert [await task.result(1.5) for task in others] == list(range(20))
        may_commit.set()
        assert (await second.wait(5)).status is Status.COMPLETED
