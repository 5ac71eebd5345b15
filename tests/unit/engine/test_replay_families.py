"""Replaying dead letters that depend on each other."""

from __future__ import annotations

import pytest

from holdfast import TaskQueue
from holdfast.core.task import Status, Task
from holdfast.queue import dead_letters
from holdfast.testing import harness


@pytest.mark.parametrize("cascade_size", [1, 1_000])
@pytest.mark.parametrize("batch", [1, 2, 500])
async def test_replaying_all_follows_the_dependencies(
    monkeypatch: pytest.MonkeyPatch, batch: int, cascade_size: int
) -> None:
    """A child is revived with its parent, also in a later transaction. It does not run before the parent has
    completed."""
    monkeypatch.setattr(dead_letters, "REPLAY_BATCH", batch)
    queue = TaskQueue()
    ran: list[str] = []
    fixed: list[bool] = []

    async def work(task: Task) -> None:
        if not fixed:
            raise ValueError("broken")
        ran.append(str(task.payload))

    queue.register_handler("work", work, max_attempts=1)
    async with harness(queue) as h:
        h.engine.basis.store._dialect.cascade_batch = cascade_size
        for n in range(3):
            above = await queue.enqueue("work", f"{n} p")
            other = await queue.enqueue("work", f"{n} q")
            child = await queue.enqueue(
                "work", f"{n} r", priority="high", depends_on=[above.id, other.id]
            )
            await queue.enqueue("work", f"{n} s", priority="critical", depends_on=[child.id])
        await h.run_until_idle()
        assert (await queue.get_stats()).dead_letter_count == 12
        fixed.append(True)
        assert await queue.replay_dead(dry_run=True) == 12
        assert await queue.replay_dead() == 12
        await h.run_until_idle()
        assert {task.status for task in await h.tasks("work")} == {Status.COMPLETED}
        for n in range(3):
            own = [name for name in ran if name.startswith(str(n))]
            assert sorted(own[:2]) == [f"{n} p", f"{n} q"]
            assert own[2:] == [f"{n} r", f"{n} s"]


async def test_a_child_that_is_replayed_without_its_dead_parent_runs() -> None:
    """A replay of the children alone does not revive the parent."""
    queue = TaskQueue()

    async def broken(task: Task) -> None:
        raise ValueError("broken")

    async def child(task: Task) -> int:
        return 1

    queue.register_handler("broken", broken, max_attempts=1)
    queue.register_handler("child", child, max_attempts=1)
    async with harness(queue) as h:
        parent = await queue.enqueue("broken")
        dependent = await queue.enqueue("child", depends_on=[parent.id])
        await h.run_until_idle()
        assert await queue.replay_dead(type="child") == 1
        await h.run_until_idle()
        replayed = await queue.get_task(dependent.id)
        assert replayed is not None
        assert replayed.status is Status.COMPLETED
