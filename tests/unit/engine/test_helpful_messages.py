"""Messages that name the class of an error, the right call and the unit."""

from __future__ import annotations

import gc
from collections.abc import Callable

import pytest

from holdfast import TaskQueue
from holdfast.cli.commands import dlq
from holdfast.cli.output.table import fitting
from holdfast.errors import BadConfig, InvalidInput, TaskFailed
from holdfast.testing import harness


def test_an_enqueue_that_is_not_awaited_names_the_call_for_plain_code() -> None:
    queue = TaskQueue()

    @queue.task
    async def send(to: str) -> None: ...

    with pytest.warns(RuntimeWarning, match=r"without an event loop: enqueue_sync.* never awaited"):
        forget(lambda: send.enqueue("ann"))


def forget(call: Callable[[], object]) -> None:
    """Makes a call in plain code and drops what it returns."""
    call()
    gc.collect()


async def test_a_failed_result_names_the_class_of_the_error() -> None:
    """The message of a KeyError alone is only the key."""
    queue = TaskQueue()

    @queue.task(max_attempts=1)
    async def look(key: str) -> int:
        return {"a": 1}[key]

    async with harness(queue) as h:
        task = await look.enqueue("customer")
        await h.run_until_idle()
        with pytest.raises(TaskFailed, match="has failed: KeyError: 'customer'") as caught:
            await task.result()
    error = caught.value
    assert (error.task_id, error.task_type, error.status) == (task.id, "look", "failed")
    assert (error.error_type, error.error) == ("KeyError", "'customer'")
    assert 'return {"a": 1}[key]' in error.traceback


async def test_a_wrong_length_of_time_names_its_unit() -> None:
    queue = TaskQueue()
    with pytest.raises(BadConfig, match="timeout is '30s': give seconds from 0 to 315360000"):

        @queue.task(timeout="30s")  # type: ignore[call-overload]
        async def send() -> None: ...

    @queue.task
    async def fine() -> None: ...

    with pytest.raises(InvalidInput, match="delay is '5m': give seconds from 0 to 315360000"):
        await fine.options(delay="5m").enqueue()  # type: ignore[arg-type]


def test_a_narrow_list_of_dead_letters_keeps_the_error() -> None:
    item = {
        "id": "01a1efe3-8bdb-7000-881c-bde097b73947",
        "type": "send_receipt",
        "failure_kind": "error",
        "attempts": 3,
        "max_attempts": 3,
        "finished_at": None,
        "error": "'customer' is no address",
    }
    titles = [column.title for column in fitting([item], dlq._columns(0.0), 80)]
    assert titles == ["ID", "TYPE", "FAILURE", "DIED", "ERROR"]
