"""kill -9, SIGSTOP and tasks that kill their worker: nothing is lost, nothing is completed twice."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import apsw
import asyncpg
import psutil
import pytest

from holdfast import Status, TaskQueue
from proof.lab.processes import start_module
from tests.acceptance.apps import journal
from tests.acceptance.apps.gate import Gate
from tests.acceptance.apps.harness import (
    Feed,
    Worker,
    assert_contiguous,
    assert_each_ended_once,
    eventually,
    whole_feed,
)
from tests.backends import SHARED, url_of
from tests.looks import look_again

TASKS = 1_000
SETTLED = {"max_workers": 8, "lease_seconds": 1.0, "max_deaths": 50}


@pytest.fixture(params=SHARED)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return url_of(request.param, request, tmp_path)


async def test_a_worker_killed_again_and_again_loses_nothing(url: str, tmp_path: Path) -> None:
    """1,000 tasks, five kills in the middle of work."""
    runs = str(tmp_path / "runs")
    worker = Worker(url, "work", **SETTLED)
    await worker.start()
    watcher = TaskQueue(url, max_deaths=50)
    feed = Feed(watcher)
    try:
        handles = await watcher.enqueue_many(
            {"type": "work", "payload": {"journal": runs, "seconds": 0.01}} for _ in range(TASKS)
        )
        for kill in range(1, 6):
            await feed.completed(kill * TASKS // 7)
            await worker.kill()
            await worker.start()
        await feed.ended(handles)
        await assert_each_ended_once(watcher, [str(handle) for handle in handles])
    finally:
        await worker.kill()
        await feed.close()
        await watcher.stop()

    started = Counter(entry.task_id for entry in journal.read(runs) if entry.what == "start")
    lost = feed.counts["task.lost"]
    assert started.keys() == {str(handle) for handle in handles}
    assert lost, "no kill hit a running task: the test proves nothing"
    # A task ran more than once only if a worker died while it had it.
    assert all(started[task_id] <= 1 + lost[task_id] for task_id in started)


async def test_tasks_of_a_killed_worker_run_elsewhere_and_spend_no_attempt(url: str) -> None:
    watcher = TaskQueue(url)
    feed = Feed(watcher)
    async with (
        Gate() as gate,
        Worker(url, "work", lease_seconds=0.6, max_workers=6) as first,
        Worker(url, "work", lease_seconds=0.6, max_workers=1),
    ):
        handles = [
            await watcher.enqueue("work", {"gate": gate.address, "name": f"n{n}"}, max_attempts=1)
            for n in range(6)
        ]
        await gate.arrived(6)
        await first.kill()
        gate.open()
        await feed.ended(handles)
        for handle in handles:
            task = await handle.get()
            assert (task.status, task.attempts) == (Status.COMPLETED, 1)
        await assert_each_ended_once(watcher, [str(handle) for handle in handles])
        assert {e.deaths for e in feed.seen if e.kind == "task.lost"} == {1}
    await feed.close()
    await watcher.stop()


async def test_a_frozen_worker_that_comes_back_late_changes_nothing(url: str) -> None:
    """SIGSTOP past the lease, another worker finishes the task, SIGCONT: the late outcome is evidence."""
    watcher = TaskQueue(url)
    feed = Feed(watcher)
    async with Gate() as gate, Worker(url, "work", lease_seconds=0.6) as frozen:
        handle = await watcher.enqueue(
            "work", {"gate": gate.address, "name": "slow", "value": "done"}
        )
        await gate.arrived(1)
        await freeze_between_writes(frozen, url)
        async with Worker(url, "work", lease_seconds=0.6) as other:
            await feed.first("task.lost", task_id=handle)
            await gate.arrived(2)
            gate.open("slow")  # both: the frozen worker reads it when it resumes
            completed = await feed.first("task.completed", task_id=handle)
            assert f":{other.pid}:" in completed.node
            before = await handle.get()
            frozen.thaw()
            left = await frozen.stop()
            # It learns of the loss by its renewal or by its outcome, whichever comes first; both
            # are counted.
            assert left["fenced"] + left["lost"] >= 1
            if left["fenced"]:
                late = await feed.first("task.late", task_id=handle)
                assert (late.fence, late.current_fence, late.result) == (1, before.fence, "done")
            assert await handle.get() == before
            await other.stop()
    events = await whole_feed(watcher)
    assert_contiguous(events)
    assert sum(event.kind == "task.completed" for event in events) == 1
    await feed.close()
    await watcher.stop()


async def freeze_between_writes(worker: Worker, url: str) -> None:
    """Not while it holds the lock that all writers need: SQLite's, or the head of the feed."""
    process = psutil.Process(worker.pid)

    async def freeze() -> None:
        worker.freeze()
        await eventually(lambda: process.status() == psutil.STATUS_STOPPED)

    if url.startswith("postgresql"):
        connection = await asyncpg.connect(url)
        async with connection.transaction():
            await connection.execute("SELECT FROM holdfast_feed_head FOR UPDATE")
            await freeze()
        await connection.close()
        return
    file = apsw.Connection(url.removeprefix("sqlite:///"))
    file.set_busy_timeout(5_000)
    file.execute("BEGIN IMMEDIATE")
    await freeze()
    file.execute("ROLLBACK")
    file.close()


async def test_a_frozen_worker_that_claims_its_task_again_runs_it_once_more_and_ends(
    url: str,
) -> None:
    """SIGSTOP past the lease, no other node has the handler, SIGCONT: the same process runs the task again
    while its first run unwinds. The second run keeps its lease and is the last."""
    watcher = TaskQueue(url)
    feed = Feed(watcher)
    async with Gate() as gate, Worker(url, "work", lease_seconds=0.6) as worker:
        task = await watcher.enqueue("work", {"gate": gate.address, "name": "work"})
        await gate.arrived(1)
        await freeze_between_writes(worker, url)
        store = (await watcher.open()).store
        while not (await store.sweep()).expired:
            await look_again()
        worker.thaw()
        await gate.arrived(2)
        renewals: set[float | None] = set()
        fences: set[int] = set()
        while len(renewals) < 6:
            now = await task.get()
            renewals.add(now.lease_until)
            fences.add(now.fence)
        gate.open()
        await feed.ended([task])
        assert len(gate.names) == 2
        assert len(fences) == 1
        assert feed.counts["task.started"][task] == 2
        assert feed.counts["task.released"][task] == 0
        assert feed.counts["task.completed"][task] == 1
    await feed.close()
    await watcher.stop()


async def test_a_task_that_kills_its_worker_ends_as_a_dead_letter(url: str, tmp_path: Path) -> None:
    """Its deaths are counted apart from attempts; other tasks of the worker go on."""
    how = "kill" if url.startswith("postgresql") else "os._exit"
    runs = str(tmp_path / "runs")
    watcher = TaskQueue(url)
    feed = Feed(watcher)
    worker = Worker(url, "work", "leave", lease_seconds=0.4, max_workers=4, max_deaths=3)
    await worker.start()

    async def keep_alive() -> None:
        while True:
            await worker.ended()
            await worker.start()

    async with Gate() as gate:
        neighbours = [
            await watcher.enqueue("work", {"gate": gate.address, "name": "neighbour"})
            for _ in range(2)
        ]
        await gate.arrived(2)
        killer = await watcher.enqueue("leave", {"how": how, "journal": runs}, max_attempts=5)
        for _ in range(2):  # it kills all of them, twice
            assert await worker.ended() != 0
            await worker.start()
        gate.open()
        keeping = asyncio.create_task(keep_alive())
        await feed.ended([killer, *neighbours])
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)
        await worker.stop()

    dead = await feed.first("task.dead")
    task = await killer.get()
    assert (dead.task_id, task.status) == (killer, Status.FAILED)
    assert (task.attempts, task.deaths, dead.attempts) == (0, 3, 0)
    assert dead.failure_kind == "lost"
    assert "stopped answering 3 times" in (task.error or "")
    assert task.failure is not None
    assert (task.failure.node or "no node") in (task.error or "")
    assert len(journal.read(runs)) == 3
    for neighbour in neighbours:
        after = await neighbour.get()
        assert (after.status, after.attempts) == (Status.COMPLETED, 1)
        assert after.deaths <= 2, "its last chance was spent on a neighbour"
    await feed.close()
    await watcher.stop()


async def test_a_producer_killed_in_the_middle_of_enqueueing_leaves_whole_tasks(url: str) -> None:
    """Every acknowledged task exists; others exist with their event, or not at all."""
    async with Worker(url, "work") as worker:
        await worker.stop()
    producer = await start_module("tests.acceptance.apps.producer", url)
    assert producer.stdout is not None
    acknowledged = [(await producer.stdout.readline()).decode().strip() for _ in range(50)]
    producer.kill()
    rest, _ = await producer.communicate()
    *more, _ = rest.decode().split("\n")  # what was written before the kill, without a torn line
    acknowledged += more

    queue = TaskQueue(url)
    events = await whole_feed(queue)
    assert_contiguous(events)
    enqueued = [event.task_id for event in events if event.kind == "task.enqueued"]
    assert set(acknowledged) <= set(enqueued)
    assert len(enqueued) == len(set(enqueued))
    assert (await queue.get_stats()).pending == len(enqueued)
    assert [t for t in enqueued if await queue.get_task(t) is None] == []
    await queue.stop()
