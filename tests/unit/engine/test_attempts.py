"""The outcomes of an attempt: results, retries, timeouts, lost leases."""

from __future__ import annotations

import asyncio
import itertools
import threading
from typing import Any

import pytest

from holdfast import Cancel, Context, Reject, Snooze, Status, Task, TaskQueue
from holdfast.core import retry
from holdfast.core.command import Abort, Instruction
from holdfast.core.task import FailureKind
from holdfast.errors import IllegalTransition, LeaseLost, NotFound, TaskFailed
from holdfast.testing import harness
from tests.conformance.tasks.helpers import claim_request


async def test_a_task_runs_and_returns_its_result(queue: TaskQueue) -> None:
    @queue.task
    async def double(x: int) -> int:
        return 2 * x

    async with harness(queue) as h:
        handle = await double.enqueue(21)
        await h.run_until_idle()
        assert await handle.result() == 42
        assert [event.kind for event in await queue.history(handle)] == [
            *("task.enqueued", "task.started", "task.completed")
        ]


async def test_retries_back_off(queue: TaskQueue) -> None:
    starts: list[float] = []

    async with harness(queue, base_retry_delay=2.0, max_retry_delay=6.0) as h:

        async def flaky(task: Task) -> None:
            starts.append(h.now())
            raise ValueError("no")

        queue.register_handler("flaky", flaky, max_attempts=4)
        handle = await queue.enqueue("flaky")
        started_at = h.now()
        await h.run_until_idle()
        assert len(starts) == 1
        await h.advance(100)
        delays = [
            retry.delay_seconds(n, base=2.0, cap=6.0, jitter=retry.unit_jitter(handle, n))
            for n in (1, 2, 3)
        ]
        assert [b - a for a, b in itertools.pairwise(starts)] == pytest.approx(delays)
        assert starts[0] == started_at
        dead = await handle.get()
        assert (dead.status, dead.attempts, dead.error) == (Status.FAILED, 4, "no")
        with pytest.raises(TaskFailed, match="no"):
            await handle.result()


async def test_a_snooze_costs_no_attempt(queue: TaskQueue) -> None:
    async with harness(queue) as h:
        attempts: list[float] = []

        async def later(task: Task) -> Snooze | str:
            attempts.append(h.now())
            return Snooze(60.0, "not ready") if len(attempts) < 5 else "ready"

        queue.register_handler("later", later, max_attempts=1)
        handle = await queue.enqueue("later")
        await h.advance(240)
        assert [round(at - attempts[0]) for at in attempts] == [0, 60, 120, 180, 240]
        task = await handle.get()
        assert (task.status, task.attempts, task.result) == (Status.COMPLETED, 1, "ready")


async def test_a_handler_may_cancel_or_reject(queue: TaskQueue) -> None:
    async with harness(queue) as h:

        async def judge(task: Task) -> Cancel:
            if task.payload == "reject":
                raise Reject("it can never work")
            return Cancel("not needed any more")

        queue.register_handler("judge", judge, max_attempts=9)
        rejected = await queue.enqueue("judge", "reject")
        cancelled = await queue.enqueue("judge", "cancel")
        await h.run_until_idle()
        task = await rejected.get()
        assert (task.status, task.attempts) == (Status.FAILED, 1)
        assert task.failure is not None
        assert task.failure.kind is FailureKind.REJECTED
        assert (await cancelled.get()).status is Status.ABORTED


async def test_a_timeout_ends_the_attempt_at_its_time(queue: TaskQueue) -> None:
    ended: list[float] = []
    async with harness(queue) as h:

        async def hang(task: Task) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                ended.append(h.now())

        queue.register_handler("hang", hang, timeout=20.0, max_attempts=1)
        handle = await queue.enqueue("hang")
        started_at = h.now()
        await h.advance(19)
        assert (await handle.get()).status is Status.RUNNING
        assert ended == []
        await h.advance(1)
        assert [at - started_at for at in ended] == pytest.approx([20.0])
        task = await handle.get()
        assert task.status is Status.FAILED
        assert task.failure is not None
        assert task.failure.kind is FailureKind.TIMEOUT
        assert "20 s" in (task.error or "")


async def test_plain_functions_run_in_threads(queue: TaskQueue) -> None:
    @queue.task
    def where(ctx: Any) -> bool:
        ctx.progress(0.5, "half")
        ctx.save({"page": 3})
        return threading.current_thread() is threading.main_thread()

    async with harness(queue) as h:
        handle = await where.enqueue()
        await h.run_until_idle()
        task = await handle.get()
        assert task.result is False
        assert (task.progress, task.checkpoint) == ({"done": 0.5, "note": "half"}, {"page": 3})


@pytest.mark.parametrize("name", ["", " ", "auto", "decision", "x" * 201, "a\0b", 5])
async def test_a_name_that_is_none_for_checkpoints(queue: TaskQueue, name: Any) -> None:
    async with harness(queue) as h:

        async def plan(task: Task, ctx: Context) -> None:
            await ctx.checkpoint(name, 1)

        queue.register_handler("plan", plan, max_attempts=1)
        handle = await queue.enqueue("plan")
        await h.run_until_idle()
        task = await handle.get()
        assert (task.status, task.checkpoint) == (Status.FAILED, None)
        assert "type" in (task.error or "")


async def test_a_checkpoint_survives_an_attempt(queue: TaskQueue) -> None:
    pages: list[object] = []

    async with harness(queue) as h:

        async def walk(task: Task, ctx: Context) -> None:
            pages.append(ctx.saved)
            await ctx.save({"page": len(pages)})
            if len(pages) < 3:
                raise ValueError("again")

        queue.register_handler("walk", walk)
        await queue.enqueue("walk")
        await h.advance(100)
        assert pages == [None, {"page": 1}, {"page": 2}]


@pytest.mark.parametrize(
    "outcome",
    [
        ValueError("\udc80 a stray byte"),
        Cancel("\udc80"),
        Snooze(5.0, "\udc80"),
        Cancel(object()),  # type: ignore[arg-type]
        Snooze("soon"),  # type: ignore[arg-type]
        object(),
        "\ud800",
        SystemExit(3),
    ],
    ids=lambda outcome: type(outcome).__name__,
)
async def test_every_outcome_of_a_handler_ends_its_attempt(
    queue: TaskQueue, outcome: object
) -> None:
    """The next task runs as usual."""
    async with harness(queue) as h:

        async def odd(task: Task) -> object:
            if isinstance(outcome, BaseException):
                raise outcome
            return outcome

        async def fine(task: Task) -> str:
            return "fine"

        queue.register_handler("odd", odd, max_attempts=1)
        queue.register_handler("fine", fine)
        strange = await queue.enqueue("odd")
        normal = await queue.enqueue("fine")
        await h.run_until_idle()
        assert (await normal.get()).result == "fine"
        assert (await strange.get()).status is not Status.RUNNING
        assert h.engine.supervisor.restarts == 0


async def test_a_cancelled_task_stops_its_handler(queue: TaskQueue) -> None:
    stopped: list[str] = []
    async with harness(queue) as h:

        async def hang(task: Task) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                stopped.append(task.id)

        queue.register_handler("hang", hang)
        handle = await queue.enqueue("hang")
        await h.run_until_idle()
        aborted = await queue.cancel(handle, actor="ann", reason="enough")
        assert aborted.status is Status.ABORTED
        await h.run_until_idle()
        assert stopped == [handle]
        assert (await handle.get()).status is Status.ABORTED
        with pytest.raises(IllegalTransition, match="has ended"):
            await queue.cancel(handle)
        with pytest.raises(NotFound):
            await queue.cancel("missing")
        assert (await queue.get_stats()).leases_lost == 1


async def test_a_runner_that_lost_its_lease_is_cancelled(queue: TaskQueue) -> None:
    errors: list[Exception] = []
    async with harness(queue) as h:
        release = asyncio.Event()

        async def work(task: Task, ctx: Context) -> str:
            await release.wait()
            try:
                await ctx.progress(0.5)
            except LeaseLost as error:
                errors.append(error)
                raise
            return "done"

        queue.register_handler("work", work)
        handle = await queue.enqueue("work")
        await h.run_until_idle()
        resources = await queue.open()
        await resources.store.apply([Instruction(handle, Abort("ann"))])
        release.set()
        await h.run_until_idle()
        assert len(errors) == 1
        assert (await handle.get()).status is Status.ABORTED


async def test_leases_are_renewed_while_a_handler_runs(queue: TaskQueue) -> None:
    async with harness(queue, lease_seconds=9.0, task_timeout=None) as h:
        done = asyncio.Event()

        async def long(task: Task) -> str:
            await done.wait()
            return "at last"

        queue.register_handler("long", long)
        handle = await queue.enqueue("long")
        await h.advance(100)
        task = await handle.get()
        assert (task.status, task.attempts, task.deaths) == (Status.RUNNING, 1, 0)
        done.set()
        await h.run_until_idle()
        assert (await handle.get()).result == "at last"


async def test_tasks_of_a_dead_node_are_queued_again_when_the_lease_ends(queue: TaskQueue) -> None:
    async with harness(queue) as h:

        async def work(task: Task) -> str:
            return "by us"

        queue.register_handler("work", work)
        await queue.pause_queue()
        handle = await queue.enqueue("work")
        await queue.resume_queue()
        resources = await queue.open()
        await resources.store.claim(claim_request(1, node="dead", lease_seconds=9.0))
        await h.run_until_idle()
        assert (await handle.get()).node == "dead"
        await h.advance(8.9)
        assert (await handle.get()).node == "dead"
        await h.advance(0.1)
        task = await handle.get()
        assert (task.result, task.deaths, task.attempts) == ("by us", 1, 1)


@pytest.mark.parametrize("where", ["type", "task"])
async def test_a_type_or_a_task_may_have_no_timeout(queue: TaskQueue, where: str) -> None:
    async with harness(queue) as h:

        async def slow(task: Task) -> str:
            await h.clock.sleep(1_000)
            return "done"

        of_type: Any = {"timeout": None} if where == "type" else {}
        of_task: Any = {"timeout": None} if where == "task" else {}
        queue.register_handler("slow", slow, **of_type)
        handle = await queue.enqueue("slow", **of_task)
        await h.advance(1_001)
        assert (await handle.get()).result == "done"
