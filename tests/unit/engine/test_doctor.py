"""The findings of `holdfast doctor` about the handlers and the engines of live nodes."""

from __future__ import annotations

import threading

import pytest

from holdfast import Task, TaskQueue
from holdfast.engine.owned_run import GIVE_UP_SECONDS
from holdfast.queue import checks
from holdfast.queue.check import Check, Level
from holdfast.testing import Harness, _drive as drive, harness
from tests.acceptance.apps.harness import eventually
from tests.unit.engine.test_deaf import Deaf


async def seen(h: Harness, queue: TaskQueue) -> Check:
    """The finding after a heartbeat."""
    await h.engine.heartbeat.step()
    return await checks.handlers(queue, 0.0)


async def test_a_handler_that_ignores_its_cancellation_is_reported(queue: TaskQueue) -> None:
    async with harness(queue, lease_seconds=9.0) as h, Deaf(ignores=10_000) as deaf:
        assert (await seen(h, queue)).level is Level.OK
        queue.register_handler("work", deaf.work, timeout=5.0, max_attempts=1)
        await queue.enqueue("work")
        await h.advance(5.0 + GIVE_UP_SECONDS + 10)
        finding = await seen(h, queue)
        assert finding.level is Level.WARN
        assert "has 1 worker whose handler ignores its cancellation" in finding.text
        [node] = await queue.get_nodes()
        assert (node.deaf_handlers, node.id in finding.text) == (1, True)
        deaf.go.set()
        await h.run_until_idle()
        assert (await seen(h, queue)).level is Level.OK


async def test_threads_that_run_after_their_attempts_ended_are_reported(
    queue: TaskQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drive, "THREAD_SECONDS", 0.1)
    go = threading.Event()

    def hang(task: Task) -> None:
        go.wait()

    async with harness(queue) as h:
        queue.register_handler("hang", hang, timeout=3.0, max_attempts=1)
        try:
            for _ in range(2):
                await queue.enqueue("hang")
            await h.advance(60)
            finding = await seen(h, queue)
            assert finding.level is Level.WARN
            assert "has 2 threads that still run after their attempts ended" in finding.text
            assert "starts no thread handlers" not in finding.text
            monkeypatch.setattr(checks, "ABANDONED_MAX", 2)
            assert "starts no thread handlers" in (await seen(h, queue)).text
        finally:
            go.set()
        await eventually(lambda: h.engine.executor.abandoned_threads == 0)
        assert (await seen(h, queue)).level is Level.OK


async def test_errors_of_an_engine(queue: TaskQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken() -> None:
        raise RuntimeError("a bug")

    async with harness(queue) as h:
        await h.engine.sweeper.guard("a part", broken())
        finding = await seen(h, queue)
        assert finding.level is Level.WARN
        assert "had 1 unexpected error since it started" in finding.text
        assert (await queue.get_stats()).troubles == 1
        monkeypatch.setattr(checks, "NAMED_MAX", 0)
        assert "and 1 more node:" in (await seen(h, queue)).text
