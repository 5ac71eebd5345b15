"""A run is identified by (task, fence): a process may hold two runs of a task while the older one unwinds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from holdfast import Context, Status, Task, TaskQueue
from holdfast.engine import runner
from holdfast.errors import LeaseLost
from holdfast.testing import Harness, harness


class Runs:
    """A handler whose runs end, and clean up after a cancellation, on a signal of the test."""

    def __init__(self, queue: TaskQueue) -> None:
        self.live: list[int] = []
        self.ended: list[int] = []
        self.clean_up, self.go = asyncio.Event(), asyncio.Event()
        queue.register_handler("work", self.work, timeout=10_000.0)

    async def work(self, task: Task) -> int:
        self.live.append(task.fence)
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            await self.clean_up.wait()
            raise
        finally:
            self.live.remove(task.fence)
            self.ended.append(task.fence)
        return task.fence


@asynccontextmanager
async def working(queue: TaskQueue) -> AsyncIterator[tuple[Harness, Runs]]:
    """An engine with such a handler. At the end of the test every run is released."""
    async with harness(queue, lease_seconds=9.0) as h:
        runs = Runs(queue)
        try:
            yield h, runs
        finally:
            runs.clean_up.set()
            runs.go.set()


async def got(queue: TaskQueue, task_id: str) -> Task:
    task = await queue.get_task(task_id)
    assert task is not None
    return task


async def reclaimed(queue: TaskQueue, h: Harness, runs: Runs) -> str:
    """The id of a task whose second run has started while the first one cleans up."""
    handle = await queue.enqueue("work")
    await h.run_until_idle()
    await queue.pause_task(handle)
    await h.run_until_idle()
    await queue.resume_task(handle)
    await h.run_until_idle()
    assert len(runs.live) == 2
    return str(handle)


async def test_the_end_of_an_old_run_leaves_the_new_one_owned(queue: TaskQueue) -> None:
    async with working(queue) as (h, runs):
        task_id = await reclaimed(queue, h, runs)
        runs.clean_up.set()
        await h.advance(60)
        assert len(runs.ended) == 1
        assert len(runs.live) == 1
        kinds = [event.kind for event in await queue.history(task_id)]
        assert "task.released" not in kinds
        assert kinds.count("task.started") == 2
        runs.go.set()
        await h.run_until_idle()
        task = await got(queue, task_id)
        assert (task.status, task.attempts, task.deaths) == (Status.COMPLETED, 1, 0)
        assert task.result == max(runs.ended)
        assert dict(h.engine.runs.by_id) == {}


async def test_the_lost_lease_of_an_old_run_does_not_cancel_the_new_run(queue: TaskQueue) -> None:
    """The heartbeat reports the loss only after the same process has claimed the task again."""
    async with working(queue) as (h, runs):
        handle = await queue.enqueue("work")
        await h.run_until_idle()
        store = (await queue.open()).store
        h.clock.set(h.now() + 20)  # As after a suspension of the machine.
        swept = await store.sweep()
        assert len(swept.expired) == 1
        await h.engine.dispatcher.step()
        for _ in range(20):
            await asyncio.sleep(0)
        assert len(runs.live) == 2
        await h.run_until_idle()
        runs.clean_up.set()
        await h.advance(60)
        assert len(runs.live) == 1, "the new run was cancelled with the old one"
        runs.go.set()
        await h.run_until_idle()
        task = await got(queue, handle)
        assert (task.status, task.deaths) == (Status.COMPLETED, 1)


async def test_a_run_that_was_claimed_again_is_cancelled_at_once(queue: TaskQueue) -> None:
    async with working(queue) as (h, runs):
        await queue.enqueue("work")
        await h.run_until_idle()
        h.clock.set(h.now() + 20)
        await (await queue.open()).store.sweep()
        runs.clean_up.set()
        await h.engine.dispatcher.step()
        for _ in range(20):
            await asyncio.sleep(0)
        assert len(runs.ended) == 1, "no heartbeat is needed"
        assert len(runs.live) == 1


async def test_a_late_end_of_an_old_run_does_not_end_the_new_one(queue: TaskQueue) -> None:
    """A handler that ignores its cancellation returns a value during the second run."""
    go = [asyncio.Event(), asyncio.Event()]
    starts: list[int] = []

    async with harness(queue, lease_seconds=9.0) as h:

        async def work(task: Task) -> str:
            starts.append(task.fence)
            mine = go[len(starts) - 1]
            while not mine.is_set():
                try:
                    await mine.wait()
                except asyncio.CancelledError:
                    continue
            return f"run {task.fence}"

        queue.register_handler("work", work, timeout=10_000.0)
        handle = await queue.enqueue("work")
        await h.run_until_idle()
        await queue.pause_task(handle)
        await h.run_until_idle()
        await queue.resume_task(handle)
        await h.run_until_idle()
        go[0].set()
        await h.advance(60)
        during = await got(queue, handle)
        go[1].set()
        await h.run_until_idle()
        assert during.status is Status.RUNNING
        assert len(starts) == 2
        assert (await got(queue, handle)).result == f"run {starts[1]}"


@pytest.mark.parametrize("attempts", [1, 2])
async def test_a_lost_lock_of_a_handler_is_a_failure(queue: TaskQueue, attempts: int) -> None:
    """LeaseLost of a lock in the handler does not concern the lease of the task."""
    async with harness(queue) as h:

        async def work(task: Task) -> None:
            raise LeaseLost("the lock 'r' is not held any more")

        queue.register_handler("work", work, max_attempts=attempts)
        handle = await queue.enqueue("work")
        await h.advance(120)
        task = await got(queue, handle)
        assert (task.status, task.attempts) == (Status.FAILED, attempts)
        assert task.failure is not None
        assert task.failure.error_type == "LeaseLost"
        assert "lock 'r'" in task.failure.message


@pytest.mark.parametrize("has_middleware", [False, True])
async def test_a_context_is_made_for_code_that_gets_it(
    queue: TaskQueue, monkeypatch: pytest.MonkeyPatch, has_middleware: bool
) -> None:
    """Without one, a run leaves less to the collector of garbage."""
    made: list[str] = []

    class Counted(Context):
        def __init__(self, task: Task, *others: Any) -> None:
            made.append(task.type)
            super().__init__(task, *others)

    async def layer(ctx: Context, call: Any) -> Any:
        return await call()

    async def bare(task: Task) -> None: ...

    async def second(task: Task, ctx: Context) -> None:
        assert ctx.attempt == 1

    async def named(n: int) -> None: ...

    async def asks(n: int, ctx: Context) -> None:
        assert ctx.attempt == n

    monkeypatch.setattr(runner, "Context", Counted)
    async with harness(queue) as h:
        for handler in (bare, second):
            queue.register_handler(handler.__name__, handler)
        queue.task(named)
        queue.task(asks)
        if has_middleware:
            queue.middleware(layer)
        handles = [await queue.enqueue(type) for type in ("bare", "second")]
        handles += [await queue.enqueue(type, {"n": 1}) for type in ("named", "asks")]
        await h.run_until_idle()
        assert [(await handle.get()).status for handle in handles] == [Status.COMPLETED] * 4
    every = ["bare", "second", "named", "asks"]
    assert made == (every if has_middleware else ["second", "asks"])


async def test_a_lost_run_without_a_context_does_not_fail(queue: TaskQueue) -> None:
    async with harness(queue) as h:

        async def work(task: Task) -> None:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                raise LeaseLost("the lock 'r' is not held any more") from None

        queue.register_handler("work", work, max_attempts=1)
        handle = await queue.enqueue("work")
        await h.run_until_idle()
        await queue.pause_task(handle)
        await h.run_until_idle()
        task = await got(queue, handle)
        assert (task.status, task.failure) == (Status.PAUSED, None)
