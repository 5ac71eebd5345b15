"""Unique windows of types and of enqueues, on every store."""

from __future__ import annotations

from datetime import timedelta

import pytest

from holdfast import TaskQueue, Unique
from holdfast.errors import BadConfig, InvalidInput
from tests.integration.retry_app import unique_in_process


async def test_a_type_has_a_window_and_an_enqueue_another(url: str) -> None:
    queue = TaskQueue(url)

    @queue.task(unique=Unique(until="ended", by="customer"))
    async def sync(customer: int, why: str = "") -> None: ...

    async with queue.producer():
        first = await sync.enqueue(1)
        again = await sync.enqueue(1, "changed")
        assert (again.id, again.created) == (first.id, False)
        assert (await sync.enqueue(2)).created
        assert (await sync.options(unique=None).enqueue(1)).created
        hour = sync.options(unique=Unique(period=timedelta(hours=1)))
        assert [(await hour.enqueue(9, "x")).created for _ in range(2)] == [True, False]
        many = await queue.enqueue_many([sync.request(5), sync.request(5, "y")])
        assert [handle.created for handle in many] == [True, False]
        with pytest.raises(InvalidInput, match="unique is 'ended'"):
            await queue.enqueue("sync", {"customer": 3}, unique="ended")  # type: ignore[arg-type]


async def test_a_window_by_no_argument_of_the_type_is_refused(url: str) -> None:
    """All tasks of the type would share it, and all but one would be dropped."""
    queue, elsewhere = TaskQueue(url), TaskQueue(url)
    wrong = Unique(until="ended", by="customr")

    async def sync(customer: int) -> None: ...

    async def loose(**arguments: int) -> None: ...

    with pytest.raises(BadConfig, match="chosen by 'customr', which is not an argument"):
        queue.task(unique=wrong)(sync)
    queue.task(sync)
    queue.task(unique=wrong)(loose)
    async with queue, elsewhere.producer():
        # A store in memory belongs to one queue.
        for one in (queue,) if url == "sqlite://" else (queue, elsewhere):
            with pytest.raises(InvalidInput, match=r"\(it has: customer\)"):
                await one.enqueue("sync", {"customer": 1}, unique=wrong)
            with pytest.raises(InvalidInput, match=r"\(it has: customer\)"):
                await one.enqueue_many(
                    [{"type": "sync", "payload": {"customer": 1}, "unique": wrong}]
                )
        assert (await queue.enqueue("loose", {"customr": 1})).created


async def test_a_process_of_a_handler_enqueues_into_a_window(url: str) -> None:
    queue = TaskQueue(url)
    queue.task(name="follow", isolation="process")(unique_in_process)
    queue.register_handler("work", lambda task: None)
    async with queue:
        made = await (await queue.enqueue("follow", {})).result(60)
    assert made[0] == made[1]


async def test_a_schedule_does_not_pile_up(url: str) -> None:
    """A fire while the task of the last one waits is recorded, and makes no task."""
    queue = TaskQueue(url)
    queue.register_handler("work", lambda task: None, unique=Unique(until="ended"))
    async with queue.producer():
        waiting = await queue.enqueue("work", None, delay=3_600)
        await queue.schedule("often", "@every 60", "work")
        store = (await queue.open()).store
        [schedule] = await queue.get_schedules()
        submission = await queue.parts.schedules.submission(schedule, store.now())
        fired = await store.schedules.fire(schedule, submission)
        assert fired is not None
        assert (fired.task_id, fired.created) == (waiting.id, False)
        events = [event async for event in queue.events(follow=False)]
        [said] = [event for event in events if event.kind == "schedule.fired"]
        assert said.data["task"] == waiting.id
        assert [event.kind for event in events].count("task.enqueued") == 1
