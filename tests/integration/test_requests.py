"""The identity of a request: a key or an id stands for all of it; keys and timeouts are checked."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from holdfast import Priority, Task, TaskQueue
from holdfast.core import codec
from holdfast.core.dependency import DependencyPolicy, Edge
from holdfast.core.request import EnqueueRequest, is_same_request
from holdfast.core.submit import submit
from holdfast.errors import DuplicateTask, IdempotencyConflict, InvalidInput


async def echo(task: Task) -> Any:
    return task.payload


@pytest.fixture
async def queue(url: str) -> AsyncIterator[TaskQueue]:
    made = TaskQueue(url)
    made.register_handler("echo", echo, key_concurrency=1)
    await made.open()
    yield made
    await made.stop()


OTHER: list[dict[str, Any]] = [
    {"payload": 2},
    {"queue": "other"},
    {"priority": "high"},
    {"max_attempts": 7},
    {"delay": 3},
    {"metadata": {"by": "ann"}},
    {"timeout": 5},
    {"timeout": None},
    {"key": "tenant"},
    {"depends_on": {"parent": "ignore"}},
    {"depends_on": {"parent": "fail"}},
]


@pytest.mark.parametrize("other", OTHER, ids=str)
async def test_a_key_stands_for_the_whole_request(queue: TaskQueue, other: dict[str, Any]) -> None:
    await queue.enqueue("echo", id="parent")
    first = await queue.enqueue("echo", **{"payload": 1, **other}, idempotency_key="k")
    again = await queue.enqueue("echo", **{"payload": 1, **other}, idempotency_key="k")
    assert (again, again.created) == (first, False)
    for wish in ({}, *OTHER):
        if wish != other:
            with pytest.raises(IdempotencyConflict):
                await queue.enqueue("echo", **{"payload": 1, **wish}, idempotency_key="k")


@pytest.mark.parametrize("other", OTHER, ids=str)
async def test_a_given_id_stands_for_the_whole_request(
    queue: TaskQueue, other: dict[str, Any]
) -> None:
    await queue.enqueue("echo", id="parent")
    await queue.enqueue("echo", 1, id="mine")
    assert not (await queue.enqueue("echo", 1, id="mine")).created
    with pytest.raises(DuplicateTask):
        await queue.enqueue("echo", **{"payload": 1, **other}, id="mine")


async def test_equal_requests_in_another_form_are_the_same_request(queue: TaskQueue) -> None:
    first = await queue.enqueue(
        "echo", {"a": 1, "b": 2}, priority="high", delay=3, metadata={}, idempotency_key="k"
    )
    again = await queue.enqueue(
        "echo",
        {"b": 2, "a": 1},
        priority=Priority.HIGH,
        delay=3.0,
        depends_on=[],
        idempotency_key="k",
    )
    assert (again, again.created) == (first, False)


async def test_a_changed_configuration_of_the_type_is_no_conflict(url: str) -> None:
    async with TaskQueue(url) as queue:
        queue.register_handler("echo", echo)
        first = await queue.enqueue("echo", 1, idempotency_key="k")
        queue.register_handler("echo", echo, max_attempts=9, priority="high", timeout=4)
        assert await queue.enqueue("echo", 1, idempotency_key="k") == first


def test_a_task_whose_hash_an_older_version_wrote_is_compared_by_what_that_covered() -> None:
    edges = (Edge("a"), Edge("b", DependencyPolicy.IGNORE))
    request = EnqueueRequest(type="echo", payload=1, depends_on=edges, max_attempts=7)
    task = submit(request, task_id="t", now=0.0).task
    old = codec.digest("echo", "default", "1", "NORMAL", "a,b")
    assert is_same_request(task, edges, old)
    assert not is_same_request(task, edges[:1], old)
    assert not is_same_request(task, edges, None)


@pytest.mark.parametrize("key", ["ten\nant", "a\0", "\udcff", "", "x" * 201, 7])
async def test_a_key_that_cannot_name_a_limit_is_refused(queue: TaskQueue, key: Any) -> None:
    with pytest.raises(InvalidInput, match="key"):
        await queue.enqueue("echo", key=key)
    assert await queue.find_tasks() == []


@pytest.mark.parametrize("timeout", [float("inf"), float("nan"), 0, -1, "3", True])
async def test_a_timeout_is_a_number_of_seconds_or_none(queue: TaskQueue, timeout: Any) -> None:
    with pytest.raises(InvalidInput, match="timeout"):
        await queue.enqueue("echo", timeout=timeout)
    with pytest.raises(InvalidInput, match="timeout"):
        queue.register_handler("other", echo, timeout=timeout)
