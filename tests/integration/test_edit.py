"""Edits of tasks in the store: merged or replaced, with the old values in the event."""

from __future__ import annotations

import pytest

from holdfast import TaskQueue
from holdfast.core.submit import PAYLOAD_BYTES_MAX
from holdfast.errors import IllegalTransition, InvalidInput, NotFound, PayloadTooLarge


async def test_a_merge_keeps_the_rest_and_the_event_the_old_values(url: str) -> None:
    queue = TaskQueue(url)
    queue.register_handler("fetch", lambda payload: payload)
    task_id = await queue.enqueue("fetch", {"customer": "evil", "url": "http://plain"}, delay=60)
    edited = await queue.edit_task(task_id, {"url": "https://fixed", "tries": 2}, merge=True)
    assert edited.payload == {"customer": "evil", "url": "https://fixed", "tries": 2}
    edited = await queue.edit_task(task_id, {"url": "x"})
    assert edited.payload == {"url": "x"}
    first, second = [e for e in await queue.history(task_id) if e.kind == "task.edited"]
    assert (first.before, first.added) == ({"url": "http://plain"}, ["tries"])
    assert second.before == {"customer": "evil", "url": "https://fixed", "tries": 2}
    await queue.stop()


async def test_an_impossible_merge_is_refused_and_changes_nothing(url: str) -> None:
    queue = TaskQueue(url)
    queue.register_handler("fetch", lambda payload: payload)
    task_id = await queue.enqueue("fetch", [1, 2], delay=60)
    with pytest.raises(InvalidInput, match="not an object"):
        await queue.edit_task(task_id, {"n": 1}, merge=True)
    half = "x" * (PAYLOAD_BYTES_MAX * 2 // 3)
    await queue.edit_task(task_id, {"a": half})
    with pytest.raises(PayloadTooLarge):
        await queue.edit_task(task_id, {"b": half}, merge=True)
    task = await queue.get_task(task_id)
    assert task is not None
    assert task.payload == {"a": half}
    await queue.stop()


async def test_a_payload_that_the_type_does_not_take_is_refused(shared_url: str) -> None:
    """The next run would make a dead letter of the task. Elsewhere the stored schema says so."""
    queue, elsewhere = TaskQueue(shared_url, default_max_attempts=1), TaskQueue(shared_url)

    @queue.task
    async def fetch(customer: str, tries: int = 1) -> str:
        if not tries:
            raise ValueError(customer)
        return customer

    async with queue, elsewhere.producer():
        dead = await fetch.enqueue("ann", 0)
        await dead.wait(30)
        for operator in (queue, elsewhere):
            for refused in (
                operator.edit_task(dead, {"tries": 2}),
                operator.edit_task(dead, {"custmer": "bob"}, merge=True),
                operator.edit_task(dead, {"tries": "2"}, merge=True),
                operator.replay_dead_task(dead, payload={"customer": 5}),
                operator.replay_dead_task(dead, patch={"tries": "2"}),
            ):
                with pytest.raises(InvalidInput, match="task 'fetch'"):
                    await refused
        assert (await dead.get()).payload == {"customer": "ann", "tries": 0}
        await elsewhere.edit_task(dead, {"tries": 0}, merge=True)
        await elsewhere.replay_dead_task(dead, patch={"tries": 2})
        assert await dead.result(30) == "ann"
        assert (await dead.get()).payload == {"customer": "ann", "tries": 2}
    gone = TaskQueue(shared_url)
    async with gone.producer():
        with pytest.raises(IllegalTransition):
            await gone.edit_task(dead, {"tries": 3}, merge=True)
        with pytest.raises(NotFound):
            await gone.edit_task("nowhere", {"tries": 3})


async def test_many_dead_letters_are_replayed_with_a_patch(url: str) -> None:
    queue = TaskQueue(url, default_max_attempts=1)

    @queue.task
    async def charge(customer: str, relay: str) -> str:
        if relay == "down":
            raise ValueError(relay)
        return f"{customer} by {relay}"

    async with queue:
        tasks = [await charge.enqueue(name, "down") for name in ("ann", "bob")]
        for task in tasks:
            await task.wait(30)
        assert await queue.replay_dead(type="charge", patch={"relay": "b"}) == 2
        assert [await task.result(30) for task in tasks] == ["ann by b", "bob by b"]
