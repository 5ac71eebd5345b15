"""The parts of the engine: scaling, ageing, schedules, stopping, limits, supervision."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from hypothesis import given, strategies as st

from holdfast import Status, Task, TaskQueue
from holdfast.app import resources_for
from holdfast.clock import VirtualClock
from holdfast.core import capacity
from holdfast.core.capacity import WorkerBounds
from holdfast.core.ids import Ids
from holdfast.core.priority import AGED_EVERY
from holdfast.engine.engine import Engine, EngineConfig
from holdfast.engine.handlers import Handlers
from holdfast.engine.supervisor import PAUSE_SECONDS, Supervisor
from holdfast.errors import EngineFailed, NotRunning, QueueStopping
from holdfast.queue.schedules import put_schedule
from holdfast.store.store import Claimed
from holdfast.testing import harness


async def test_the_pool_grows_with_work_and_shrinks_after_quiet(queue: TaskQueue) -> None:
    async with harness(queue, min_workers=2, max_workers=6) as h:
        gate = asyncio.Event()

        async def hold(task: Task) -> None:
            await gate.wait()

        queue.register_handler("hold", hold, timeout=1000.0)
        assert h.engine.pool.workers == 2
        for _ in range(10):
            await queue.enqueue("hold")
        await h.run_until_idle()
        assert (h.engine.pool.workers, h.engine.pool.busy) == (6, 6)
        gate.set()
        await h.run_until_idle()
        assert len(await h.tasks(status="completed")) == 10
        await h.advance(9)
        assert h.engine.pool.workers == 6
        await h.advance(3)
        assert h.engine.pool.workers == 2


async def test_an_operator_scales_by_hand(queue: TaskQueue) -> None:
    with pytest.raises(NotRunning):
        await queue.scale_workers(1)
    async with harness(queue, min_workers=1, max_workers=4) as h:
        assert await queue.scale_workers(5) == 6
        await h.run_until_idle()
        assert await queue.scale_workers(-4) == 2
        await h.run_until_idle()
        assert h.engine.pool.workers == 2
        assert await queue.scale_workers(-1) == 1
        assert (h.engine.pool.minimum, h.engine.pool.maximum) == (1, 4), "as configured"


async def test_scaling_adds_to_the_current_workers_and_load_does_not_exceed_it(
    queue: TaskQueue,
) -> None:
    gate = asyncio.Event()
    async with harness(queue, min_workers=1, max_workers=3) as h:

        async def hold(task: Task) -> None:
            await gate.wait()

        queue.register_handler("hold", hold, timeout=1000.0)
        for _ in range(40):
            await queue.enqueue("hold")
        await h.run_until_idle()
        assert h.engine.pool.busy == 3
        assert await queue.scale_workers(2) == 5, "load had grown the pool to three"
        assert h.engine.dispatcher.is_woken, "there may be work for them"
        await h.run_until_idle()
        assert h.engine.pool.busy == 5
        assert await queue.scale_workers(-2) == 3
        gate.set()
        await h.run_until_idle()
        assert h.engine.pool.workers == 3
        gate.clear()
        for _ in range(40):
            await queue.enqueue("hold")
        await h.run_until_idle()
        assert h.engine.pool.busy == 3, "max_workers has not changed"
        gate.set()


async def test_workers_that_were_just_added_can_be_removed(queue: TaskQueue) -> None:
    async with harness(queue, min_workers=1, max_workers=3) as h:
        assert await queue.scale_workers(50) == 51
        assert await queue.scale_workers(-100) == 1
        await h.run_until_idle()
        assert h.engine.pool.workers == 1


async def test_removed_workers_do_not_come_back(
    queue: TaskQueue,
) -> None:
    gate = asyncio.Event()
    async with harness(queue, min_workers=4, max_workers=8) as h:

        async def hold(task: Task) -> None:
            await gate.wait()

        queue.register_handler("hold", hold, timeout=1000.0)
        assert await queue.scale_workers(-2) == 2
        for _ in range(10):
            await queue.enqueue("hold")
        await h.advance(30)
        assert h.engine.pool.busy == 2
        assert await queue.scale_workers(2) == 4
        await h.run_until_idle()
        assert h.engine.pool.busy == 8, "as configured"
        gate.set()


@given(
    low=st.integers(1, 8),
    more=st.integers(0, 8),
    wishes=st.lists(st.integers(-30, 30), min_size=1, max_size=8),
)
def test_scaling_stays_within_bounds(low: int, more: int, wishes: list[int]) -> None:
    configured = WorkerBounds(low, low + more)
    current, so_far = low, 0
    for by in wishes:
        scaled = capacity.scaled(current=current, by=by, so_far=so_far, configured=configured)
        assert scaled.target == max(1, current + by)
        assert 1 <= scaled.bounds.minimum <= scaled.bounds.maximum
        assert scaled.bounds.maximum <= max(configured.maximum, scaled.target)
        current, so_far = scaled.target, scaled.so_far
    back = capacity.scaled(current=current, by=-so_far, so_far=so_far, configured=configured)
    assert (back.so_far, back.target, back.bounds) == (0, low, configured)


async def test_a_task_that_becomes_due_during_a_claim_is_claimed_at_once(
    queue: TaskQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock of the producer may be a little ahead of the dispatcher's. The next poll is seconds away."""

    @queue.task
    async def work() -> None: ...

    async with harness(queue) as h:
        store, dispatcher = h.engine._store, h.engine.dispatcher
        await h.run_until_idle()
        claim = store.claim

        async def slow_claim(*args: Any, **kwargs: Any) -> Claimed:
            claimed = await claim(*args, **kwargs)
            h.clock.set(h.clock.now() + 0.01)
            return claimed

        monkeypatch.setattr(store, "claim", slow_claim)
        await work.options(delay=0.005).enqueue()
        dispatcher.wake()
        assert await dispatcher.step() == 0.0


async def test_workers_that_are_added_get_work_at_once(queue: TaskQueue) -> None:
    gate = asyncio.Event()

    async def hold(task: Task) -> None:
        await gate.wait()

    queue.register_handler("hold", hold)
    async with harness(queue, max_workers=1) as h:
        for _ in range(3):
            await queue.enqueue("hold")
        await h.run_until_idle()
        assert h.engine.pool.busy == 1
        await queue.scale_workers(2)
        await h.run_until_idle()
        assert h.engine.pool.busy == 3
        gate.set()


async def test_workers_that_became_free_while_tasks_waited_get_work_at_once(
    queue: TaskQueue,
) -> None:
    """One worker runs short tasks. Then the last claimed task is a long one."""
    gate = asyncio.Event()

    async def quick(task: Task) -> None: ...

    async def hold(task: Task) -> None:
        await gate.wait()

    queue.register_handler("quick", quick)
    queue.register_handler("hold", hold)
    async with harness(queue, max_workers=3) as h:
        await queue.pause_queue()
        for task_type in ("quick", "quick", "hold", "hold", "hold"):
            await queue.enqueue(task_type)
        await queue.resume_queue()
        await h.run_until_idle()
        assert h.engine.pool.busy == 3
        gate.set()


async def test_low_priority_is_never_starved(queue: TaskQueue) -> None:
    starts: list[str] = []
    async with harness(queue, max_workers=1, ageing_seconds=60.0) as h:

        async def note(task: Task) -> None:
            starts.append(task.priority.name.lower())

        queue.register_handler("note", note)
        await queue.pause_queue()
        for _ in range(3):
            await queue.enqueue("note", priority="low")
        await h.advance(61)
        for _ in range(60):
            await queue.enqueue("note", priority="critical")
        await queue.resume_queue()
        await h.run_until_idle()
    places = [n for n, name in enumerate(starts) if name == "low"]
    # The bound: a task with k aged ones before it starts after at most (k + 1) * AGED_EVERY starts.
    assert all(index < (k + 1) * AGED_EVERY for k, index in enumerate(places))
    assert len(starts) == 63
    assert starts.count("critical") == 60


async def test_strict_priority_without_ageing(queue: TaskQueue) -> None:
    starts: list[str] = []
    async with harness(queue, max_workers=1) as h:

        async def note(task: Task) -> None:
            starts.append(task.priority.name.lower())

        queue.register_handler("note", note)
        await queue.pause_queue()
        for priority in ("low", "normal", "critical", "high") * 2:
            await queue.enqueue("note", priority=priority)
        await queue.resume_queue()
        await h.run_until_idle()
    assert starts == [*["critical"] * 2, *["high"] * 2, *["normal"] * 2, *["low"] * 2]


async def test_a_schedule_fires_at_its_times(queue: TaskQueue) -> None:
    fired: list[float] = []

    @queue.task(cron="*/10 * * * *")
    async def report() -> None: ...

    async with harness(queue) as h:
        start = h.now()
        await h.advance(3600)
        fired = [task.created_at - start for task in await h.tasks(report)]
        assert fired == [600.0 * n for n in range(1, 7)]
        assert all(task.metadata == {"schedule": "report"} for task in await h.tasks(report))


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
        return Engine(
            EngineConfig(node=node),
            clock=clock,
            store=resources.store,
            bus=resources.bus,
            handlers=Handlers(),
            make_scheduled=queue.parts.schedules.submission,
            on_ended=lambda tasks: None,
            on_failed=lambda error: None,
            code_schedules=lambda: queue.definitions.schedules,
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


async def test_a_stop_gives_back_tasks_that_did_not_start(queue: TaskQueue) -> None:
    async with harness(queue, max_workers=2) as h:
        gate = asyncio.Event()

        async def hold(task: Task) -> str:
            await gate.wait()
            return "done"

        queue.register_handler("hold", hold)
        handles = [await queue.enqueue("hold") for _ in range(2)]
        await h.run_until_idle()
        late = await queue.enqueue("hold")
        resources = await queue.open()
        claimed = (await resources.store.reads.get([late]))[late]
        assert claimed.status is Status.QUEUED
        stopping = asyncio.create_task(h.engine.stop())
        for _ in range(20):
            await asyncio.sleep(0)
        gate.set()
        while not stopping.done():
            await asyncio.sleep(0)
            await h.engine.completer.step()
        assert [(await handle.get()).result for handle in handles] == ["done", "done"]
        task = await late.get()
        assert (task.status, task.attempts, task.deaths) == (Status.QUEUED, 0, 0)


async def test_a_stop_that_times_out_gives_tasks_back_without_spending_an_attempt(
    queue: TaskQueue,
) -> None:
    cancelled: list[str] = []
    async with harness(queue, shutdown_timeout=30.0, task_timeout=None) as h:

        async def hang(task: Task) -> None:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled.append(task.id)
                raise

        queue.register_handler("hang", hang, max_attempts=1)
        handle = await queue.enqueue("hang")
        await h.run_until_idle()
        resources = await queue.open()
        stopping = asyncio.create_task(h.engine.stop())
        for _ in range(200):
            await asyncio.sleep(0)
            if (wake := h.clock.next_wake()) is not None:
                h.clock.set(wake)
            if stopping.done():
                break
        await stopping
        task = (await resources.store.reads.get([handle]))[handle]
        assert cancelled == [handle]
        assert (task.status, task.attempts, task.deaths) == (Status.QUEUED, 0, 0)


async def test_a_stopping_queue_takes_no_new_work(queue: TaskQueue) -> None:
    async def work(task: Task) -> None: ...

    queue.register_handler("work", work)
    async with harness(queue):
        queue.parts.sessions.here.stopping = True
        with pytest.raises(QueueStopping, match="takes no new work"):
            await queue.enqueue("work")
        queue.parts.sessions.here.stopping = False


async def test_keys_under_limits_do_not_wait_for_each_other(queue: TaskQueue) -> None:
    running: list[str] = []
    async with harness(queue, max_workers=4, task_timeout=None) as h:
        gate = asyncio.Event()

        async def hold(task: Task) -> None:
            running.append(task.payload)
            await gate.wait()

        queue.register_handler("hold", hold, key_concurrency=1)
        for n in range(20):
            await queue.enqueue("hold", f"a{n}", key="a")
        await queue.enqueue("hold", "b", key="b")
        await h.run_until_idle()
        assert running == ["a0", "b"]
        gate.set()
        await h.run_until_idle()
        assert len(running) == 21


async def test_a_rate_spreads_starts_over_time(queue: TaskQueue) -> None:
    starts: list[float] = []
    async with harness(queue) as h:

        async def note(task: Task) -> None:
            starts.append(h.now())

        queue.register_handler("note", note, rate="6/m")
        started_at = h.now()
        for _ in range(4):
            await queue.enqueue("note")
        await h.advance(60)
        assert [at - started_at for at in starts] == pytest.approx(
            [0.0, 10.0, 20.0, 30.0], abs=0.01
        )
        assert all(task.attempts == 1 for task in await h.tasks("note"))


# -- supervision -------------------------------------------------------------------------------------


async def tick_until(clock: VirtualClock, done: Any) -> list[float]:
    """Advances the clock from deadline to deadline. Returns the pauses."""
    pauses: list[float] = []
    while not done():
        for _ in range(10):
            await asyncio.sleep(0)
        wake = clock.next_wake()
        if wake is not None:
            pauses.append(wake - clock.now())
            clock.set(wake)
    return pauses


async def test_a_part_that_dies_is_restarted_with_backoff(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = VirtualClock()
    lives = 0

    async def part() -> None:
        nonlocal lives
        lives += 1
        if lives < 5:
            raise RuntimeError("died")

    supervisor = Supervisor(clock, lambda failure: None)
    task = supervisor.start("part", part)
    pauses = await tick_until(clock, task.done)
    assert pauses == pytest.approx([PAUSE_SECONDS * 2**n for n in range(4)])
    assert supervisor.restarts == 4
    assert supervisor.running() == []
    assert "died, starting it again" in caplog.text


async def test_a_part_that_dies_too_often_is_given_up_and_reported() -> None:
    clock = VirtualClock()
    errors: list[EngineFailed] = []

    async def part() -> None:
        raise RuntimeError("always")

    supervisor = Supervisor(clock, errors.append, restarts_max=3, window_seconds=60.0)
    task = supervisor.start("part", part)
    await tick_until(clock, task.done)
    assert supervisor.restarts == 3
    assert len(errors) == 1
    assert "always" in str(errors[0])
    assert isinstance(errors[0].__cause__, RuntimeError)


async def test_deaths_outside_the_window_do_not_count() -> None:
    clock = VirtualClock()
    errors: list[EngineFailed] = []
    lives = 0

    async def part() -> None:
        nonlocal lives
        lives += 1
        if lives > 10:
            return
        await clock.sleep(100.0)
        raise RuntimeError("now and then")

    supervisor = Supervisor(clock, errors.append, restarts_max=2, window_seconds=60.0)
    task = supervisor.start("part", part)
    await tick_until(clock, task.done)
    assert errors == []
    assert supervisor.restarts == 10
    await supervisor.stop()
