"""Task groups of a queue on every store: progress, results in order, dependents, cancel."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from holdfast import TaskQueue
from holdfast.core.task import Status
from holdfast.errors import InvalidInput, NotFound, TaskFailed, WaitTimeout


@dataclass
class Sum:
    total: int


def queue_of(url: str) -> TaskQueue:
    queue = TaskQueue(url)

    @queue.task
    async def add(a: int, b: int) -> Sum:
        return Sum(a + b)

    @queue.task(max_attempts=1)
    async def fail() -> None:
        raise ValueError("broken")

    return queue


def add(queue: TaskQueue, a: int, b: int, **options: Any) -> dict[str, Any]:
    return {"type": "add", "payload": {"a": a, "b": b}, **options}


async def test_results_come_in_order(url: str) -> None:
    queue = queue_of(url)
    async with queue:
        group = await queue.enqueue_group([add(queue, n, 1) for n in range(20)])
        assert await group.results(60) == [Sum(n + 1) for n in range(20)]
        assert len(group) == 20
        found = await queue.get_group(group.id)
        assert found.task_ids == group.task_ids
        progress = await found.progress()
        assert (progress.size, progress.counts) == (20, {Status.COMPLETED: 20})
        with pytest.raises(NotFound, match="task group none"):
            await queue.get_group("none")


async def test_another_queue_finds_a_group_by_its_id(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'holdfast.db'}"
    async with queue_of(url) as queue:
        group = await queue.enqueue_group([add(queue, n, 1) for n in range(3)])
        await group.wait(60)
    async with queue_of(url).producer() as other:
        found = await other.get_group(group.id)
        assert await found.results() == [Sum(1), Sum(2), Sum(3)]


async def test_a_task_runs_after_a_group(url: str) -> None:
    queue = queue_of(url)

    @queue.task
    async def total(ctx: Any) -> int:
        return sum(parent.result["total"] for parent in (await ctx.parents()).values())

    async with queue:
        group = await queue.enqueue_group([add(queue, n, 0) for n in range(5)])
        assert await (await total.options(depends_on=[group]).enqueue()).result(60) == 10
        named = await queue.enqueue("total", {}, depends_on=[f"group:{group.id}"])
        assert await named.result(60) == 10
        lost = await queue.enqueue_group([{"type": "fail"}, add(queue, 1, 2)])
        with pytest.raises(TaskFailed, match="broken"):
            await lost.results(60)
        child = await queue.enqueue("total", {}, depends_on={f"group:{lost.id}": "ignore"})
        await child.wait(60)
        doomed = await queue.enqueue_many([{"type": "total", "depends_on": [f"group:{lost.id}"]}])
        assert (await doomed[0].wait(60)).status is Status.FAILED
        with pytest.raises(NotFound, match="task group none"):
            await queue.enqueue("total", {}, depends_on=["group:none"])


async def test_the_rest_is_cancelled(url: str) -> None:
    queue = queue_of(url)
    async with queue.producer():
        late = [add(queue, n, 0, delay=900) for n in range(3)]
        group = await queue.enqueue_group([*late, add(queue, 1, 1)], id="mine")
        await queue.cancel(group.task_ids[0])
        with pytest.raises(WaitTimeout, match="3 of 4 tasks"):
            await group.wait(0)
        assert await group.cancel(actor="ann", reason="wrong") == 3
        assert await group.cancel() == 0
        assert (await group.wait(5)).counts == {Status.ABORTED: 4}
        events = [event async for event in queue.events(follow=False)]
        said = [event.data for event in events if event.kind == "task.aborted"]
        assert [data["actor"] for data in said] == ["api", "ann", "ann", "ann"]
        assert (await queue.enqueue_group([*late, add(queue, 1, 1)], id="mine")).id == "mine"


async def test_what_is_no_group_is_refused(url: str) -> None:
    queue = queue_of(url)
    async with queue.producer():
        with pytest.raises(InvalidInput, match="at least one"):
            await queue.enqueue_group([])
        with pytest.raises(InvalidInput, match="projects"):
            await queue.enqueue_group([add(queue, 1, 1), add(queue, 1, 1, project="other")])
        with pytest.raises(InvalidInput, match="id must be text"):
            await queue.enqueue_group([add(queue, 1, 1)], id="")


def test_code_without_an_event_loop_has_groups(url: str) -> None:
    queue = queue_of(url)
    with queue.sync as sync:
        group = sync.enqueue_group([add(queue, n, 0, delay=900) for n in range(3)])
        assert group.progress().open == 3
        found = sync.get_group(group.id)
        child = sync.enqueue("add", {"a": 1, "b": 1}, depends_on=[found])
        assert child.get().waiting_on == 3
        assert found.cancel() == 3
        assert [task.status for task in group.tasks()] == [Status.ABORTED] * 3
        assert group.wait().is_ended
