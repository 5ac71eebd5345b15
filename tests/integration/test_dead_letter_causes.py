"""Dead letters name the class of their error, and a chain with one cause is one group."""

from __future__ import annotations

import pickle

import pytest

from holdfast import Status, TaskQueue
from holdfast.errors import TaskFailed
from tests.acceptance.apps.harness import whole_feed

SECONDS = 30.0


def queue_on(url: str) -> TaskQueue:
    queue = TaskQueue(url, default_max_attempts=1)

    @queue.task
    async def charge() -> None:
        raise KeyError("customer")

    @queue.task
    async def mail() -> None: ...

    @queue.task
    async def archive() -> None: ...

    return queue


async def test_a_failed_result_carries_the_task(url: str) -> None:
    queue = queue_on(url)
    async with queue:
        handle = await queue.enqueue("charge")
        with pytest.raises(TaskFailed, match="has failed: KeyError: 'customer'") as caught:
            await handle.result(SECONDS)
    error = caught.value
    assert error.task is not None
    assert (error.task.id, error.task.status, error.task.attempts) == (handle.id, "failed", 1)
    assert error.error_type == "KeyError"
    assert "raise KeyError" in error.traceback
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.error_type) == (str(error), "KeyError")


async def test_an_aborted_task_is_no_error_of_a_handler(url: str) -> None:
    queue = queue_on(url)
    async with queue.producer():
        handle = await queue.enqueue("mail")
        await queue.cancel(handle)
        with pytest.raises(TaskFailed, match="was aborted") as caught:
            await handle.result(SECONDS)
    assert caught.value.task is not None
    assert caught.value.task.status is Status.ABORTED
    assert (caught.value.error_type, caught.value.traceback) == ("", "")


async def test_one_cause_in_a_chain_is_one_group(url: str) -> None:
    queue = queue_on(url)
    async with queue:
        await queue.pause_queue()
        first = await queue.enqueue("charge")
        second = await queue.enqueue("mail", depends_on=[first])
        third = await queue.enqueue("archive", depends_on=[second])
        await queue.resume_queue()
        await third.wait(SECONDS)
        groups = await queue.get_dead_groups()
        assert [(group.count, group.type) for group in groups] == [(3, "charge")]
        assert (groups[0].error_type, groups[0].sample_id) == ("KeyError", first.id)
        why = str(await queue.why(third))
        assert "KeyError: 'customer'" in why
        events = [e.data for e in await whole_feed(queue) if e.kind == "task.dead"]
        assert events[0]["error_type"] == "KeyError"
        assert len({data["fingerprint"] for data in events}) == 1


async def test_a_parent_that_was_aborted_gives_no_group_of_a_failure(url: str) -> None:
    queue = queue_on(url)
    async with queue.producer():
        first = await queue.enqueue("charge")
        second = await queue.enqueue("mail", depends_on=[first])
        await queue.cancel(first)
        await second.wait(SECONDS)
        (group,) = await queue.get_dead_groups()
        assert (group.type, group.count, group.error_type) == ("mail", 1, "")
