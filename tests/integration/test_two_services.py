"""Two services with different handlers on one store: a task fired by one has the options defined by the
other."""

from __future__ import annotations

import asyncio
import logging

from holdfast import Status, Task, TaskQueue
from holdfast.core.schedule import Schedule
from holdfast.queue import checks
from holdfast.queue.check import Level
from holdfast.queue.schedules import put_schedule


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


async def test_an_unknown_type_is_left_to_others_and_reported(shared_url: str) -> None:
    async with TaskQueue(shared_url) as queue:
        queue.register_handler("idle", idle)
        await queue.schedule("known", "@every 0.02", "idle")
        resources = await queue.open()
        lost = Schedule("lost", "gone", "default", "@every 0.02", "UTC", "null", 2, 0.0)
        await put_schedule(resources, lost)
        before = next(each for each in await queue.get_schedules() if each.name == "lost")
        await until_fired(queue, "known", 5)
        after = next(each for each in await queue.get_schedules() if each.name == "lost")
        assert (after.next_at, after.fired_at) == (before.next_at, None)
        assert queue.parts.sessions.engine is not None
        await queue.parts.sessions.engine.heartbeat.step()
        skipped = (await queue.get_nodes())[0].skipped
        assert list(skipped) == ["lost"]
        assert "UnknownType" in skipped["lost"]


class Warnings(logging.Handler):
    """Warnings of this process's engines about types that others define differently."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.said: list[str] = []
        self._came = asyncio.Event()

    def emit(self, record: logging.LogRecord) -> None:
        if "with different options" in record.getMessage():
            self.said.append(record.getMessage())
            self._came.set()

    async def next(self) -> str:
        async with asyncio.timeout(20):
            await self._came.wait()
        self._came.clear()
        return self.said[-1]


async def test_one_name_with_different_options_is_reported_to_both_services(
    shared_url: str,
) -> None:
    shop, mail = TaskQueue(shared_url), TaskQueue(shared_url)
    for queue in (shop, mail):
        queue.register_handler("same", idle, max_attempts=4)
    shop.register_handler("send", idle, max_attempts=5, rate="10/s")
    mail.register_handler("send", idle, max_attempts=2, timeout=60)
    log, warnings = logging.getLogger("holdfast.engine"), Warnings()
    log.addHandler(warnings)
    try:
        async with shop:
            [shop_node] = await shop.get_nodes()
            assert (await checks.types(shop, 0.0)).level is Level.OK
            async with mail:
                warning = await warnings.next()
                assert f"'send' is defined by this node and by {shop_node.id} with" in warning
                assert (
                    "max_attempts 2 and 5, rate default and 10/s, timeout 60 and default" in warning
                )
                [mail_node] = [n for n in await shop.get_nodes() if n.id != shop_node.id]
                shop.register_handler("other", idle)  # it checks again at once
                warning = await warnings.next()
                assert f"'send' is defined by this node and by {mail_node.id} with" in warning
                assert "max_attempts 5 and 2" in warning
                found = await checks.types(shop, 0.0)
                assert found.level is Level.WARN
                assert shop_node.id in found.text
                assert mail_node.id in found.text
                assert "max_attempts" in found.text
                assert "same" not in found.text
            assert (await checks.types(shop, 0.0)).level is Level.OK
            second = TaskQueue(shared_url)  # another process of the same service
            second.register_handler("send", idle, max_attempts=5, rate="10/s")
            async with second:
                assert (await checks.types(shop, 0.0)).level is Level.OK
        assert len(warnings.said) == 2
    finally:
        log.removeHandler(warnings)
