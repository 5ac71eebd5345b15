"""Limits are exact across processes: never more at once, never more in a window, no other task delayed."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

from holdfast import Status, TaskQueue
from holdfast.engine.handle import TaskHandle
from tests.acceptance.apps import journal
from tests.acceptance.apps.gate import Gate
from tests.acceptance.apps.harness import Worker
from tests.acceptance.apps.jobs import make_queue

SETTINGS = {"max_workers": 3, "lease_seconds": 3.0}


async def all_at_first_attempt(tasks: list[TaskHandle[Any]]) -> None:
    for task in tasks:
        done = await task.wait(30)
        assert (done.status, done.attempts, done.deaths) == (Status.COMPLETED, 1, 0)


async def test_concurrency_of_a_key_over_two_processes(shared_url: str, runs: str) -> None:
    """key_concurrency=2: at most two of each key, and both slots are used, with 5 + 5 workers."""
    producer = TaskQueue(shared_url)
    settings = {**SETTINGS, "max_workers": 5}
    async with (
        Gate() as gate,
        Worker(shared_url, "keyed", "work", **settings) as one,
        Worker(shared_url, "keyed", "work", **settings) as two,
    ):
        batch = [
            {
                "type": "keyed",
                "key": key,
                "payload": {"journal": runs, "note": key, "gate": gate.address, "name": key},
            }
            for key in ("a", "b", "c")
            for _ in range(8)
        ]
        tasks = await producer.enqueue_many(batch)
        for key in "abc":
            await gate.arrived(2, key)  # both slots, at the same time
        free = await producer.enqueue("work", {"value": "free"})
        assert await free.result(5) == "free"  # not behind tasks that wait at a limit
        assert sorted(gate.names) == [*"aabbcc"]
        gate.open()
        await all_at_first_attempt(tasks)
        await one.stop()
        await two.stop()
    entries = journal.read(runs)
    assert {key: journal.most_at_once(entries, key) for key in "abc"} == dict.fromkeys("abc", 2)
    assert len({entry.pid for entry in entries}) == 2, "one process did all: nothing was proved"
    await producer.stop()


async def test_concurrency_of_a_type_over_two_processes(shared_url: str, runs: str) -> None:
    """Four at once, with 3 + 3 workers."""
    producer = TaskQueue(shared_url)
    async with (
        Gate() as gate,
        Worker(shared_url, "four_at_once", **SETTINGS) as one,
        Worker(shared_url, "four_at_once", **SETTINGS) as two,
    ):
        tasks = await producer.enqueue_many(
            {"type": "four_at_once", "payload": {"journal": runs, "gate": gate.address}}
            for _ in range(60)
        )
        await gate.arrived(4)
        gate.open()
        await all_at_first_attempt(tasks)
        await one.stop()
        await two.stop()
    assert journal.most_at_once(journal.read(runs)) == 4
    await producer.stop()


async def test_rate_over_two_processes(shared_url: str, runs: str) -> None:
    """20/s: the store's start times are at least 50 ms apart, on whichever node.

    That a rate is used to the full is shown in virtual time, `test_a_rate_spreads_starts_over_time`.
    """
    producer = TaskQueue(shared_url)
    async with (
        Worker(shared_url, "rated", "work", **SETTINGS) as one,
        Worker(shared_url, "rated", "work", **SETTINGS) as two,
    ):
        tasks = await producer.enqueue_many(
            {"type": "rated", "payload": {"journal": runs}} for _ in range(25)
        )
        free = await producer.enqueue("work", {"value": "free"})
        assert await free.result(3) == "free"
        await all_at_first_attempt(tasks)
        await one.stop()
        await two.stop()
    starts = sorted([(await task.get()).started_at or 0.0 for task in tasks])
    gaps = [later - earlier for earlier, later in itertools.pairwise(starts)]
    assert min(gaps) >= 0.05 - 1e-6
    await producer.stop()


async def test_rates_of_keys_do_not_hold_each_other_up(url: str) -> None:
    async with make_queue(url, "key_rated", **SETTINGS) as queue:
        crowd = [await queue.enqueue("key_rated", {}, key="crowd") for _ in range(6)]
        alone = await queue.enqueue("key_rated", {}, key="alone")
        done = await alone.wait(5)
        first = await crowd[0].wait(5)
        assert done.started_at is not None
        assert first.started_at is not None
        await all_at_first_attempt(crowd)
        starts = sorted([(await task.get()).started_at or 0.0 for task in crowd])
        assert done.started_at < starts[2]
        assert min(b - a for a, b in itertools.pairwise(starts)) >= 0.2 - 1e-6


async def test_why_names_the_limit_and_who_holds_it(url: str) -> None:
    async with Gate() as gate, make_queue(url, "one_by_one", **SETTINGS) as queue:
        holder = await queue.enqueue("one_by_one", {"gate": gate.address, "name": "h"})
        await gate.arrived(1)
        waiting = await queue.enqueue("one_by_one", {"value": 2})
        why = await queue.why(waiting)
        assert [reason.code for reason in why.reasons] == ["limit-full"]
        assert why.reasons[0].data["holders"] == [holder]
        gate.open()
        assert await waiting.result(5) == 2


async def test_a_limit_is_freed_by_whatever_ends_a_task(shared_url: str) -> None:
    """Cancelled, paused, failed, or its worker killed: the next task starts."""
    settings: dict[str, Any] = {"lease_seconds": 0.5, "max_deaths": 1}
    producer = TaskQueue(shared_url, **settings)
    async with Gate() as gate, Worker(shared_url, "one_by_one", **settings) as worker:

        async def hold(name: str) -> TaskHandle[Any]:
            task = await producer.enqueue("one_by_one", {"gate": gate.address, "name": name})
            await gate.arrived(1, name)
            return task

        cancelled = await hold("cancelled")
        await producer.cancel(cancelled)
        paused = await hold("paused")
        await producer.pause_task(paused)
        late = await producer.enqueue(
            "one_by_one", {"gate": gate.address, "name": "late"}, timeout=0.2, max_attempts=1
        )
        assert (await late.wait(10)).status is Status.FAILED
        killed = await hold("killed")
        await worker.kill()
        async with Worker(shared_url, "one_by_one", **settings) as heir:
            assert (await killed.wait(10)).status is Status.FAILED
            last = await producer.enqueue("one_by_one", {"value": "in"})
            assert await last.result(5) == "in"
            await producer.resume_task(paused)
            gate.open()
            assert (await paused.wait(10)).status is Status.COMPLETED
            await heir.stop()
    await producer.stop()


async def test_limited_tasks_of_many_producers_all_run(url: str) -> None:
    async with make_queue(url, "keyed", **SETTINGS) as queue:

        async def call(caller: int) -> None:
            for n in range(5):
                task = await queue.enqueue("keyed", {"value": n}, key=str(caller % 3))
                assert await task.result(20) == n

        await asyncio.gather(*(call(caller) for caller in range(12)))
        assert (await queue.get_stats()).completed == 60
