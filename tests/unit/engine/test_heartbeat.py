"""The heartbeat in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from holdfast import TaskQueue
from holdfast.core.command import Instruction
from holdfast.core.decide import Ruling
from holdfast.core.task import Task
from holdfast.testing import harness


async def test_a_run_whose_outcome_is_being_committed_is_not_lost(
    queue: TaskQueue, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The renewal runs after the commit of the outcome, and before the completer has its answer."""
    committed, go_on = asyncio.Event(), asyncio.Event()

    @queue.task
    async def work() -> None: ...

    async with harness(queue) as h:
        store = (await queue.open()).store
        finish = store.finish

        async def slow(ended: Sequence[tuple[Task, Instruction]], **_: bool) -> list[Ruling]:
            rulings = await finish(ended)
            committed.set()
            await go_on.wait()
            return rulings

        monkeypatch.setattr(store, "finish", slow)
        await work.enqueue()
        running = asyncio.create_task(h.run_until_idle())
        await committed.wait()
        await h.engine.heartbeat.step()
        go_on.set()
        await running
        assert h.engine.heartbeat.lost == 0
    assert not caplog.records
