"""Two services with different handlers on one store: what one fires for the other is as that defined it."""

from __future__ import annotations

import asyncio

from holdfast import Status, Task, TaskQueue
from holdfast.core.schedule import Schedule


async def idle(task: Task) -> None: ...


async def until_fired(queue: TaskQueue, schedule: str, times: int) -> None:
    async with asyncio.timeout(20):
        async for event in queue.events():
            times -= event.kind == "schedule.fired" and event.schedule == schedule
            if not times:
                return


async def test_a_schedule_fired_elsewhere_has_the_types_configuration(shared_url: str) -> None:
    running, peak = 0, 0

    async def job(task: Task) -> None:
        nonlocal running, peak
        running += 1
        peak = max(peak, running)
        for _ in range(100):
            await asyncio.sleep(0)
        running -= 1

    owner = TaskQueue(shared_url, max_workers=5, min_workers=5)
    owner.register_handler("job", job, concurrency=1, max_attempts=9, timeout=77)
    other = TaskQueue(shared_url)
    other.register_handler("idle", idle)
    async with owner:
        await owner.schedule("soon", "@every 0.01", "job")
        await owner.pause_schedule("soon")
    async with other:
        await other.resume_schedule("soon")
        await until_fired(other, "soon", 6)
        tasks = await other.find_tasks(type="job")
        assert len(tasks) >= 6
        assert {(task.limit_names, task.max_attempts) for task in tasks} == {(("job",), 9)}
        assert {task.options.timeout_seconds for task in tasks} == {77.0}
        await other.pause_schedule("soon")
        async with TaskQueue(shared_url) as second, asyncio.timeout(20):
            second.register_handler("job", job, concurrency=1, max_attempts=9, timeout=77)
            waited = await other.find_tasks(type="job", limit=1000)
            ended = [await second.wait_task(task.id) for task in waited]
            assert {task.status for task in ended} == {Status.COMPLETED}
    assert peak == 1


async def test_a_type_that_nobody_knows_is_left_to_others_and_told(shared_url: str) -> None:
    async with TaskQueue(shared_url) as queue:
        queue.register_handler("idle", idle)
        await queue.schedule("known", "@every 0.02", "idle")
        backend = await queue.open()
        lost = Schedule("lost", "gone", "default", "@every 0.02", "UTC", "null", 2, 0.0)
        await queue._put_schedule(backend, lost)
        before = next(each for each in await queue.get_schedules() if each.name == "lost")
        await until_fired(queue, "known", 5)
        after = next(each for each in await queue.get_schedules() if each.name == "lost")
        assert (after.next_at, after.fired_at) == (before.next_at, None)
        assert queue._engine is not None
        await queue._engine.keeper.step()
        skipped = (await queue.get_nodes())[0].skipped
        assert list(skipped) == ["lost"]
        assert "UnknownType" in skipped["lost"]
