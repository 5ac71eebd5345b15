"""A step of a task acts once: its workers are killed or frozen before, during and after it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import apsw
import asyncpg

from holdfast import Status, Task, TaskQueue
from tests.acceptance.apps import journal
from tests.acceptance.apps.gate import Gate
from tests.acceptance.apps.harness import Feed, Worker
from tests.acceptance.apps.jobs import make_queue
from tests.acceptance.test_kill import freeze_between_writes

SETTLED = {"lease_seconds": 0.6, "max_deaths": 20}


async def test_a_step_acts_once_though_its_workers_are_killed(shared_url: str, runs: str) -> None:
    """The first dies within the effect, the second between the step and the end of the task."""
    kind = "pay_outside" if shared_url.startswith("sqlite") else "thread_pay_outside"
    handle = await killed_twice(shared_url, kind, {"journal": runs})
    assert handle.result == "was charged"
    assert len(journal.read(runs)) == 1


async def test_a_step_in_the_same_database_acts_once(shared_url: str) -> None:
    """Its writes commit with it: a worker that dies before leaves none, one that dies after leaves all."""
    await sql(shared_url, "CREATE TABLE charges (id text)")
    handle = await killed_twice(shared_url, "pay_inside", {"url": shared_url})
    assert handle.result == "charged"
    assert await sql(shared_url, "SELECT count(*) FROM charges") == 1


async def killed_twice(url: str, kind: str, payload: dict[str, str]) -> Task:
    """Three workers; the one that runs the task is killed, at two points of its handler."""
    queue = TaskQueue(url)
    async with Gate() as gate, crew(3, url, kind) as workers:
        handle = await queue.enqueue(kind, {**payload, "gate": gate.address})
        await gate.arrived(1, "acting")
        await kill_holder(workers, await handle.get())
        await gate.arrived(2, "acting")
        gate.open("acting")
        await gate.arrived(1, "acted")
        await kill_holder(workers, await handle.get())
        await gate.arrived(2, "acted")
        gate.open()
        await handle.result(20)
        assert gate.names == ["acting", "acting", "acted", "acted"]
    task = await handle.get()
    assert (task.status, task.attempts, task.deaths) == (Status.COMPLETED, 1, 2)
    await queue.stop()
    return task


@asynccontextmanager
async def crew(count: int, url: str, kind: str) -> AsyncIterator[list[Worker]]:
    """Workers that start together, and do not outlive the test."""
    workers = [Worker(url, kind, **SETTLED) for _ in range(count)]
    async with AsyncExitStack() as stack:
        await asyncio.gather(*(stack.enter_async_context(worker) for worker in workers))
        yield workers


async def kill_holder(workers: list[Worker], task: Task) -> None:
    (holder,) = [worker for worker in workers if f":{worker.pid}:" in (task.node or "")]
    await holder.kill()


async def test_a_step_acts_once_though_its_own_process_is_killed(url: str, runs: str) -> None:
    """A process handler: it kills itself within the effect, and after the step."""
    async with make_queue(url, "process_pay_and_die", base_retry_delay=0.01) as queue:
        handle = await queue.enqueue("process_pay_and_die", {"journal": runs}, max_attempts=5)
        assert await handle.result(20) == "was charged"
        assert (await handle.get()).attempts == 3
    assert [entry.what for entry in journal.read(runs)] == ["charge", "after", "after"]


async def test_a_zombie_does_not_write_its_step(shared_url: str, runs: str) -> None:
    """Frozen within the effect past its lease; it resumes when another worker has ended the task."""
    queue = TaskQueue(shared_url)
    feed = Feed(queue)
    async with Gate() as gate, crew(2, shared_url, "pay_outside") as workers:
        handle = await queue.enqueue("pay_outside", {"journal": runs, "gate": gate.address})
        await gate.arrived(1, "acting")
        node = (await handle.get()).node or ""
        zombie, other = sorted(workers, key=lambda worker: f":{worker.pid}:" not in node)
        await freeze_between_writes(zombie, shared_url)
        await feed.first("task.lost", task_id=handle)
        await gate.arrived(2, "acting")
        gate.open()
        assert await handle.result(20) == "was charged"
        zombie.thaw()
        left = await zombie.stop()
        assert left["fenced"] + left["lost"] >= 1
        await other.stop()
    assert (await handle.get()).result == "was charged"
    assert len(journal.read(runs)) == 1
    await feed.close()
    await queue.stop()


async def sql(url: str, text: str) -> int | None:
    """What the user's own connection reads."""
    if url.startswith("sqlite"):
        file = apsw.Connection(url.removeprefix("sqlite:///"))
        file.set_busy_timeout(10_000)
        rows = file.execute(text).fetchall()
        file.close()
        return int(str(rows[0][0])) if rows else None
    connection = await asyncpg.connect(url)
    rows_found = await connection.fetch(text)
    await connection.close()
    return rows_found[0][0] if rows_found else None
