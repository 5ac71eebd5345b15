"""Runs and types as other processes see and change them."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import Cancel, Status, Task, TaskQueue
from holdfast.errors import IllegalTransition, TaskFailed, UnknownType
from tests.acceptance.apps.gate import Gate
from tests.acceptance.apps.harness import Feed, Worker
from tests.acceptance.apps.jobs import make_queue

QUICK: dict[str, Any] = {"lease_seconds": 0.6, "base_retry_delay": 0.01, "shutdown_timeout": 2.0}


async def test_cancel_from_another_process_stops_a_running_task(shared_url: str) -> None:
    for kind in ("work", "process_work"):
        async with Gate() as gate, Worker(shared_url, kind, lease_seconds=0.6) as worker:
            here = TaskQueue(shared_url)
            task = await here.enqueue(kind, {"gate": gate.address, "name": "x"})
            await gate.arrived(1)
            aborted = await here.cancel(task, actor="me", reason="enough")
            assert aborted.status is Status.ABORTED
            await gate.left("x")
            assert (await task.get()).status is Status.ABORTED
            with pytest.raises(IllegalTransition):
                await here.cancel(task)
            assert (await worker.stop())["lost"] == 1
            await here.stop()


async def test_actor_and_reason_of_an_abort_are_shown_everywhere(url: str) -> None:
    queue = TaskQueue(url)

    @queue.task
    async def work(unwanted: bool = False) -> Cancel | None:
        return Cancel("not wanted") if unwanted else None

    async with queue:
        stopped = await work.options(delay=3600).enqueue()
        await queue.cancel(stopped, actor="ann", reason="a typo")
        ended = await work.enqueue(unwanted=True)
        silent = await work.options(delay=3600).enqueue()
        await queue.cancel(silent, actor="bob")
        for task, who in (
            (stopped, "ann: a typo"),
            (ended, "handler: not wanted"),
            (silent, "bob"),
        ):
            with pytest.raises(TaskFailed, match=f"was aborted: by {who}$"):
                await task.result(10)
            assert f"it was aborted: by {who}" in str(await queue.why(task))
            assert (await task.get()).held_by == who


async def test_pause_and_resume_of_a_running_task(url: str) -> None:
    async with Gate() as gate, make_queue(url, "work", **QUICK) as queue:
        task = await queue.enqueue("work", {"gate": gate.address, "name": "x"}, max_attempts=1)
        await gate.arrived(1)
        paused = await queue.pause_task(task, actor="me", reason="look")
        assert (paused.status, paused.attempts, paused.held_by) == (Status.PAUSED, 0, "me: look")
        await gate.left("x")
        assert "paused by me" in str(await queue.why(task))
        assert (await queue.get_stats()).paused == 1
        await queue.resume_task(task)
        await gate.arrived(2)
        gate.open()
        done = await task.wait(10)
        assert (done.status, done.attempts) == (Status.COMPLETED, 1)


async def test_a_type_is_accepted_when_another_process_has_registered_it(shared_url: str) -> None:
    producer = TaskQueue(shared_url)
    with pytest.raises(UnknownType, match=r"'work'.*register one and start that worker"):
        await producer.enqueue("work", {})
    assert await producer.find_tasks() == []
    async with Worker(shared_url, "work") as worker:
        task = await producer.enqueue("work", {"value": 1})
        assert await task.result(10) == 1
        await worker.stop()
    # Its worker has ended, the type is still known: the task waits, and why() names the reason.
    waiting = await producer.enqueue("work", {})
    assert "no live node has a handler for 'work'" in str(await producer.why(waiting))
    await producer.stop()


async def test_a_handler_registered_while_running_is_known_to_other_processes(
    shared_url: str,
) -> None:
    async with make_queue(shared_url, "work", **QUICK) as queue:

        async def late(task: Task) -> str:
            return "late"

        queue.register_handler("late", late)
        here = await queue.enqueue("late", {})
        assert await here.result(5) == "late"
        producer = TaskQueue(shared_url)
        task = await producer.enqueue("late", {})
        assert await task.result(5) == "late"
        await producer.stop()


async def test_an_outcome_under_an_old_fence_is_evidence_only(shared_url: str) -> None:
    """A runner that does not know of its lost lease ends the task, which another runner has by then."""
    settings = {**QUICK, "lease_seconds": 0.4}
    async with Gate() as gate, make_queue(shared_url, "thread_work", **settings) as deaf:
        assert deaf.parts.sessions.engine is not None
        feed = Feed(deaf)
        task = await deaf.enqueue(
            "thread_work", {"gate": gate.address, "name": "x", "value": "late"}
        )
        await gate.arrived(1)
        await deaf.parts.sessions.engine.supervisor.stop("heartbeat", "dispatcher")
        async with make_queue(shared_url, "thread_work", **settings) as other:
            await gate.arrived(2)
            first, second = gate.present["x"]
            second.write(b"go\n")
            done = await feed.first("task.completed")
            first.write(b"go\n")
            late = await feed.first("task.late")
            assert late.task_id == done.task_id == task
            assert (late.fence, late.current_fence) == (1, 3)
            assert late.result["value"] == "late"
            assert (await task.get()).fence == 3
            assert (await deaf.get_stats()).fenced == 1
            assert (await other.get_stats()).fenced == 0
        await feed.close()
