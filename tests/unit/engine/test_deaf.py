"""Handlers that ignore their cancellation: cancelled again, then given up. Threads that do not return."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from typing import Self

import pytest

from holdfast import Event, Status, Task, TaskQueue
from holdfast.engine import execute, supervisor
from holdfast.engine.drain import FLUSH_SECONDS, UNWIND_SECONDS
from holdfast.engine.owned_run import GIVE_UP_SECONDS
from holdfast.errors import StoreUnavailable
from holdfast.queue import feed
from holdfast.testing import _drive as drive, harness
from tests.acceptance.apps.harness import eventually


class Deaf:
    """A handler that ignores its first cancellations until the test ends."""

    def __init__(self, ignores: int) -> None:
        self.heard = 0
        self.go = asyncio.Event()
        self._ignores = ignores

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.go.set()

    async def work(self, task: Task) -> str:
        while not self.go.is_set():
            try:
                await self.go.wait()
            except asyncio.CancelledError:
                self.heard += 1
                if self.heard > self._ignores:
                    raise
        return "done"


async def test_a_handler_that_ignores_one_cancellation_is_cancelled_again(queue: TaskQueue) -> None:
    async with harness(queue, lease_seconds=9.0) as h, Deaf(ignores=2) as deaf:
        queue.register_handler("work", deaf.work, timeout=5.0, max_attempts=1)
        handle = await queue.enqueue("work")
        await h.advance(5.0 + GIVE_UP_SECONDS)
        task = await queue.get_task(handle)
        assert task is not None
        assert (task.status, deaf.heard) == (Status.FAILED, 3)
        assert "timeout of 5 s" in str(task.error)
        assert h.engine.pool.busy == 0
        after = await queue.enqueue("work")
        deaf.go.set()
        await h.run_until_idle()
        done = await queue.get_task(after)
        assert done is not None
        assert done.status is Status.COMPLETED, "the worker goes on"


async def test_a_deaf_handler_keeps_its_worker_but_not_its_task(
    queue: TaskQueue, caplog: pytest.LogCaptureFixture
) -> None:
    async with harness(queue, lease_seconds=9.0) as h, Deaf(ignores=10_000) as deaf:
        queue.register_handler("work", deaf.work, timeout=5.0, max_attempts=1)
        handle = await queue.enqueue("work")
        await h.advance(5.0 + GIVE_UP_SECONDS + 10)
        task = await queue.get_task(handle)
        assert task is not None
        assert (task.status, task.deaths) == (Status.FAILED, 0)
        assert "timeout of 5 s" in str(task.error)
        assert (h.engine.pool.busy, len(h.engine.runs.by_id)) == (1, 0)
        assert (await queue.get_stats()).deaf_handlers == 1
        assert "has ignored its cancellation" in caplog.text
        assert "await self.go.wait()" in caplog.text, "the stack"
        deaf.go.set()
        await h.run_until_idle()
        assert h.engine.pool.busy == 0
        assert (await queue.get_stats()).deaf_handlers == 0
        kinds = [event.kind for event in await queue.history(handle)]
        assert "task.late" not in kinds


async def test_a_deaf_handler_does_not_block_a_stop(
    queue: TaskQueue, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(supervisor, "STOP_SECONDS_MAX", 0.05)
    async with Deaf(ignores=10_000) as deaf:
        async with harness(queue, shutdown_timeout=1.0) as h:
            queue.register_handler("work", deaf.work)
            await queue.enqueue("work")
            await h.run_until_idle()
        assert "left behind" in caplog.text


async def test_a_stop_does_not_wait_for_handlers_that_were_given_up(
    queue: TaskQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "STOP_SECONDS_MAX", 0.05)
    async with Deaf(ignores=10_000) as deaf:
        async with harness(queue, shutdown_timeout=30.0) as h:
            queue.register_handler("work", deaf.work, timeout=5.0, max_attempts=1)
            await queue.enqueue("work")
            await h.advance(5.0 + GIVE_UP_SECONDS + 10)
            assert h.engine.runs.deaf == 1
            before = h.now()
        assert h.now() == before


async def test_a_handler_that_is_given_up_during_a_stop_ends_the_wait(
    queue: TaskQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "STOP_SECONDS_MAX", 0.05)
    async with Deaf(ignores=10_000) as deaf, harness(queue) as h:
        queue.register_handler("work", deaf.work, timeout=5.0, max_attempts=1)
        await queue.enqueue("work")
        await h.advance(6.0)
        waiting = asyncio.create_task(h.engine.pool.wait_quiet(600.0))
        await h.advance(GIVE_UP_SECONDS + 10)
        assert waiting.done()
        assert await waiting


async def test_a_stop_waits_once_for_handlers_and_an_outage(
    queue: TaskQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Running tasks use up the time of the stop. Outcomes that cannot be written get little more."""

    async def wait(task: Task) -> None:
        await asyncio.Event().wait()

    async def away(*_: object, **__: object) -> object:
        raise StoreUnavailable("the store is away")

    queue.register_handler("wait", wait, timeout=600.0)
    queue.register_handler("quick", lambda payload: payload)
    async with harness(queue, shutdown_timeout=30.0) as h:
        await queue.enqueue("wait")
        await h.run_until_idle()
        monkeypatch.setattr(h.engine.completer._store, "finish", away)
        await queue.enqueue("quick")
        await h.run_until_idle()
        before = h.now()
    assert h.now() - before <= 30.0 + UNWIND_SECONDS + FLUSH_SECONDS


async def test_a_hurried_stop_does_not_wait_for_an_outage(
    queue: TaskQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: object, **__: object) -> object:
        raise StoreUnavailable("the store is away")

    queue.register_handler("quick", lambda payload: payload)
    async with harness(queue, shutdown_timeout=600.0) as h:
        monkeypatch.setattr(h.engine.completer._store, "finish", away)
        await queue.enqueue("quick")
        await h.run_until_idle()
        before = h.now()
        queue.hurry()
    assert h.now() - before <= FLUSH_SECONDS


async def test_an_event_handler_that_ignores_its_cancellation_does_not_block_a_stop(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(feed, "DRAIN_SECONDS", 0.05)
    monkeypatch.setattr(feed, "UNWIND_SECONDS", 0.05)
    called, released = asyncio.Event(), asyncio.Event()

    async def deaf(event: Event) -> None:
        called.set()
        while not released.is_set():
            with suppress(asyncio.CancelledError):
                await released.wait()

    queue = TaskQueue("sqlite://")
    queue.register_handler("work", lambda payload: payload)
    await queue.open()
    subscription = queue.on_event(deaf)
    await queue.enqueue("work")
    await called.wait()
    async with asyncio.timeout(20):
        await queue.stop()
    assert "abandoned 1 event handlers" in caplog.text
    released.set()
    await subscription()


async def test_threads_that_do_not_return_are_bounded(
    queue: TaskQueue, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(execute, "ABANDONED_MAX", 2)
    monkeypatch.setattr(drive, "THREAD_SECONDS", 0.1)
    go = threading.Event()
    started: list[str] = []

    def hang(task: Task) -> None:
        started.append(task.id)
        go.wait()

    async def light(task: Task) -> str:
        return "runs"

    async with harness(queue, max_workers=1) as h:
        queue.register_handler("hang", hang, timeout=3.0, max_attempts=1)
        queue.register_handler("light", light)
        try:
            for _ in range(5):
                await queue.enqueue("hang")
            other = await queue.enqueue("light", priority="low")
            await h.advance(60)
            assert len(started) == 2
            assert (await queue.get_stats()).abandoned_threads == 2
            assert "takes no tasks for threads" in caplog.text
            task = await queue.get_task(other)
            assert task is not None
            assert task.status is Status.COMPLETED, "tasks of other types run"
        finally:
            go.set()
        await eventually(lambda: h.engine.executor.abandoned_threads == 0)
        await h.advance(60)
        assert len(started) == 5
        assert (await queue.get_stats()).abandoned_threads == 0
