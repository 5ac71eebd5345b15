"""Metrics of a queue: runs by type and outcome, durations, and gauges."""

from __future__ import annotations

import asyncio

import pytest

from holdfast import TaskQueue
from holdfast.engine import meters
from holdfast.metrics import Family, Kind, Metrics


async def test_runs_and_tasks_are_measured_by_type(url: str) -> None:
    metrics = Metrics(meters.FAMILIES)
    queue = TaskQueue(url, meter=metrics, base_retry_delay=0.01)

    @queue.task(queue="mail")
    async def send(n: int) -> int:
        return n

    @queue.task(max_attempts=2)
    async def boom() -> None:
        raise ValueError("no")

    async with queue:
        sent = [await send.enqueue(n) for n in range(3)]
        broken = await boom.enqueue()
        await asyncio.gather(*(handle.wait(20) for handle in [*sent, broken]))
        later = await send.options(delay=3600).enqueue(9)
        stats = await queue.get_stats()
        assert stats.by_type == {"send": {"completed": 3, "queued": 1}, "boom": {"failed": 1}}
        for outcome, type_, name, n in (
            ("completed", "send", "mail", 3),
            ("retried", "boom", "default", 1),
            ("dead", "boom", "default", 1),
        ):
            assert metrics.value(meters.TASKS, type=type_, queue=name, outcome=outcome) == n
        assert metrics.value(meters.RUN, type="send", queue="mail") == 3
        assert metrics.value(meters.WAIT, type="boom", queue="default") == 2
        assert metrics.value(meters.DEPTH, queue="mail", status="queued") == 1
        assert metrics.value(meters.BY_TYPE, type="send", status="completed") == 3
        assert metrics.value(meters.DEAD, queue="default") == 1
        assert metrics.value(meters.WORKERS) >= 1
        assert metrics.value(meters.WRITE) >= 1
        assert metrics.value(meters.FEED_HEAD) == (await queue.position()).offset
        assert metrics.value(meters.BUS_MODE, mode="push") == 1
        assert metrics.value(meters.ENQUEUED, type="send", queue="mail") == 4
        assert metrics.value(meters.OUTCOME_SIZE) == metrics.value(meters.WRITE)
        assert metrics.value(meters.CLAIM_SIZE) >= 1
        for name in (meters.LEASES_LOST, meters.FENCED, meters.OUTAGES, meters.TROUBLES):
            assert metrics.value(name) == 0
        await queue.cancel(later)
        await queue.discard_dead()
        await queue.get_stats()
        assert metrics.value(meters.DEPTH, queue="mail", status="queued") == 0
        assert metrics.value(meters.DEAD, queue="default") == 0
    assert (
        'holdfast_tasks_total{type="send",queue="mail",outcome="completed"} 3' in metrics.render()
    )


async def test_what_an_engine_lost_is_counted_once(url: str) -> None:
    metrics = Metrics(meters.FAMILIES)
    queue = TaskQueue(url, meter=metrics)
    started, go_on = asyncio.Event(), asyncio.Event()

    @queue.task
    async def work() -> None:
        started.set()
        await go_on.wait()

    async with queue:
        handle = await work.enqueue()
        await started.wait()
        await queue.cancel(handle)
        engine = queue.parts.sessions.engine
        assert engine is not None
        await engine.heartbeat.step()
        for _ in range(2):
            await queue.get_stats()
            assert metrics.value(meters.LEASES_LOST) == engine.heartbeat.lost == 1
        go_on.set()


async def test_the_lag_of_an_event_handler_is_that_of_the_slowest(url: str) -> None:
    metrics = Metrics(meters.FAMILIES)
    queue = TaskQueue(url, meter=metrics)
    queue.register_handler("work", lambda payload: payload)
    got, go_on = asyncio.Event(), asyncio.Event()

    async def slow(_: object) -> None:
        got.set()
        await go_on.wait()

    async with queue.producer():
        unsubscribe = queue.on_event(slow)
        await queue.parts.sessions.here.subscriptions.started()
        before = (await queue.position()).offset
        for _ in range(3):
            await queue.enqueue("work")
        await got.wait()
        await queue.get_stats()
        assert metrics.value(meters.FEED_LAG) == (await queue.position()).offset - before == 3
        go_on.set()
        await unsubscribe()
        await queue.get_stats()
        assert metrics.value(meters.FEED_LAG) == 0


async def test_gauges_follow_the_count_of_the_sweeper(url: str) -> None:
    metrics = Metrics(meters.FAMILIES)
    queue = TaskQueue(url, meter=metrics)
    queue.register_handler("work", lambda payload: payload)
    async with queue:
        await queue.enqueue("work", delay=3600)
        assert queue.parts.sessions.engine is not None
        sweeper = queue.parts.sessions.engine.sweeper
        async with sweeper.ticking:  # a tick that began before the enqueue sets it at its end
            sweeper._count_at = 0.0
        await sweeper.step()
        assert metrics.value(meters.DEPTH, queue="default", status="queued") == 1


async def test_a_producer_has_gauges_without_workers(url: str) -> None:
    metrics = Metrics(meters.FAMILIES)
    queue = TaskQueue(url, meter=metrics)
    queue.register_handler("work", lambda payload: payload)
    await queue.enqueue("work")
    await queue.get_stats()
    assert metrics.value(meters.BY_TYPE, type="work", status="queued") == 1
    await queue.stop()


@pytest.mark.parametrize("family", meters.FAMILIES)
def test_families_are_named_as_the_others_are(family: Family) -> None:
    assert family.name.startswith("holdfast_")
    assert family.name.endswith("_total") == (family.kind is Kind.COUNTER)
    if family.kind is Kind.HISTOGRAM:
        assert family.name.endswith(("_seconds", "_size"))
