"""Operator calls of a queue: each takes its actor, reason and expected version alike, and records them."""

import asyncio
import inspect

import pytest

from holdfast import TaskQueue
from holdfast.errors import VersionConflict

OF_TASKS = ("cancel", "pause_task", "resume_task", "edit_task", "replay_dead_task")
OF_OTHERS = (
    "schedule",
    "unschedule",
    "pause_schedule",
    "resume_schedule",
    "run_schedule",
    "pause_queue",
    "resume_queue",
    "replay_dead",
    "discard_dead",
)


@pytest.mark.parametrize("name", [*OF_TASKS, *OF_OTHERS])
def test_a_call_takes_actor_reason_and_version_last(name: str) -> None:
    parameters = inspect.signature(getattr(TaskQueue, name)).parameters
    wanted = ["actor", "reason", "expected_version"] if name in OF_TASKS else ["actor", "reason"]
    assert list(parameters)[-len(wanted) :] == wanted
    assert {parameters[each].kind for each in wanted} == {inspect.Parameter.KEYWORD_ONLY}


async def test_reasons_are_recorded() -> None:
    async with TaskQueue("sqlite://") as queue:

        async def boom(_: object) -> None:
            raise ValueError("boom")

        queue.register_handler("boom", boom, max_attempts=1)
        task = await (await queue.enqueue("boom", {"n": 1})).wait(30.0)
        start = await queue.position()
        await queue.pause_queue(reason="first")
        await queue.edit_task(task.id, {"n": 2}, reason="second")
        await queue.replay_dead_task(task.id, reason="third")
        await queue.pause_task(task.id, reason="fourth")
        await queue.resume_task(task.id, reason="fifth")
        await queue.schedule("nightly", "@daily", "boom", reason="sixth")
        await queue.pause_schedule("nightly", reason="seventh")
        await queue.resume_schedule("nightly", reason="eighth")
        await queue.unschedule("nightly", reason="ninth")
        await queue.resume_queue(reason="tenth")
        await queue.wait_task(task.id, 30.0)
        await queue.replay_dead(reason="eleventh")
        reasons = [
            event.data["reason"]
            async for event in queue.events(start, follow=False)
            if event.data.get("reason")
        ]
    assert reasons == [
        "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth",
        "eleventh",
    ]  # fmt: skip


async def test_a_change_of_another_version_is_refused() -> None:
    async with TaskQueue("sqlite://") as queue:
        await queue.pause_queue()
        queue.register_handler("mail", print)
        task_id = (await queue.enqueue("mail", {"n": 1})).id
        with pytest.raises(VersionConflict):
            await queue.edit_task(task_id, {"n": 2}, reason="late", expected_version=99)
        with pytest.raises(VersionConflict):
            await queue.pause_task(task_id, reason="late", expected_version=99)


async def test_a_schedule_is_run_by_hand_in_every_form() -> None:
    queue = TaskQueue("sqlite://")
    queue.register_handler("mail", print)
    async with queue.producer():
        await queue.schedule("nightly", "@daily", "mail", {"n": 1})
        first = await queue.run_schedule("nightly", reason="by hand")
        second = await asyncio.to_thread(queue.sync.run_schedule, "nightly", actor="ann")
        assert first.id != second.id
        for task in (first, second):
            assert (task.type, task.payload, task.metadata) == (
                *("mail", {"n": 1}),
                {"schedule": "nightly"},
            )
        fired = [
            (event.data["task"], event.data["actor"])
            async for event in queue.events(follow=False)
            if event.kind == "schedule.fired"
        ]
    assert fired == [(first.id, "api"), (second.id, "ann")]
    await asyncio.to_thread(queue.sync.close)
