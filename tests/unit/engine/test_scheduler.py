"""Schedules in virtual time."""

from __future__ import annotations

import random

from holdfast import TaskQueue
from holdfast.app import resources_for
from holdfast.clock import VirtualClock
from holdfast.core.ids import Ids
from holdfast.core.wire import time_text
from holdfast.engine.basis import Basis, EngineConfig
from holdfast.engine.compose import compose
from holdfast.engine.engine import Engine
from holdfast.engine.handlers import Handlers
from holdfast.queue.schedules import put_schedule
from holdfast.testing import harness


async def test_a_schedule_fires_at_its_times(queue: TaskQueue) -> None:
    fired: list[float] = []

    @queue.task(cron="*/10 * * * *")
    async def report() -> None: ...

    async with harness(queue) as h:
        start = h.now()
        await h.advance(3600)
        fired = [task.created_at - start for task in await h.tasks(report)]
        assert fired == [600.0 * n for n in range(1, 7)]
        assert [task.metadata for task in await h.tasks(report)] == [
            {"schedule": "report", "scheduled_for": time_text(start + at)} for at in fired
        ]


async def test_missed_fires_are_coalesced(queue: TaskQueue) -> None:
    @queue.task(cron="@every 60")
    async def tick() -> None: ...

    async with harness(queue) as h:
        h.clock.set(h.now() + 3600)
        await h.advance(0)
        assert len(await h.tasks(tick)) == 1


async def test_two_engines_fire_a_schedule_once() -> None:
    clock = VirtualClock()
    resources = resources_for("sqlite://", clock, inline=True, ids=Ids(random.Random(1)))()
    await resources.store.open()
    queue = TaskQueue("sqlite://")
    queue.parts.sessions.here.opened(resources)

    @queue.task(cron="@every 60")
    async def tick() -> None: ...

    def engine(node: str) -> Engine:
        return compose(
            Basis(
                config=EngineConfig(node=node),
                clock=clock,
                store=resources.store,
                bus=resources.bus,
                handlers=Handlers(),
                make_scheduled=queue.parts.schedules.submission,
                on_ended=lambda tasks: None,
                on_failed=lambda error: None,
                code_schedules=lambda: queue.definitions.schedules,
            )
        )

    await put_schedule(resources, queue.definitions.schedules[0])
    engines = [engine(f"node-{n}") for n in range(2)]
    for _ in range(10):
        clock.set(clock.now() + 30)
        for one in engines:
            await one.scheduler.step()
    assert len(await resources.store.reads.find(limit=100)) == 5
    assert sum(one.scheduler.fired for one in engines) == 5
    for one in engines:
        await one.executor.close()
    await resources.store.close()
