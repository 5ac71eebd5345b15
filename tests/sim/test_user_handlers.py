"""The simulator on the user's own handlers."""

from __future__ import annotations

import asyncio
from asyncio import sleep as virtual_sleep  # the loop under test has a time of its own
from collections.abc import Iterator
from typing import Any

import pytest

from holdfast import Context, TaskQueue
from holdfast.errors import BadConfig, NotRunning
from holdfast.sim import checkers
from holdfast.sim.outcome import Outcome
from holdfast.testing.plugin import simulate

__all__ = ["simulate"]  # the fixture that users get from the plugin


@pytest.fixture
def queue() -> TaskQueue:
    made = TaskQueue("sqlite:////nowhere/at/all.db")

    @made.task(max_attempts=5)
    async def count(n: int) -> int:
        await virtual_sleep(2)
        return n + 1

    @made.task
    async def save(ctx: Context) -> None:
        await ctx.save(1)

    return made


def test_own_handlers_run_under_faults(queue: TaskQueue, simulate: Any) -> None:
    report = simulate(queue, payloads={"count": [{"n": 1}, {"n": 2}]}, seeds=3)
    assert report.seeds == 3
    assert report.met


def test_what_handlers_break_is_told_in_its_smallest_form(
    queue: TaskQueue, simulate: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a law that no run can keep."""

    def again(outcome: Outcome) -> Iterator[str]:
        yield from (f"{run.task_id} ran on {run.life}" for run in outcome.record.runs[:1])

    monkeypatch.setitem(checkers.CHECKERS, "nothing ever runs", again)
    with pytest.raises(AssertionError) as caught:
        simulate(queue, payloads={"count": [{"n": 1}]}, seeds=2, nodes=3, faults=["crash", "loss"])
    told = str(caught.value)
    assert told.startswith("seed 0 broke:\n  nothing ever runs: ")
    assert "The smallest run that does" in told
    again_line = next(line for line in told.splitlines() if line.startswith("Again: "))
    assert "first_seed=0, seeds=1, hours=" in again_line
    assert "nodes=1" in again_line
    assert "faults=[]" in again_line
    assert "time (s)" in told


def test_a_handler_without_a_payload_is_asked_for(queue: TaskQueue, simulate: Any) -> None:
    with pytest.raises(BadConfig, match="'count' needs n: give --payload 'count="):
        simulate(queue)


def test_a_plain_handler_cannot_be_simulated(simulate: Any) -> None:
    queue = TaskQueue()

    @queue.task
    def plain() -> None:
        return

    with pytest.raises(BadConfig, match="only async handlers"):
        simulate(queue)


def test_the_users_store_is_out_of_reach(queue: TaskQueue, simulate: Any) -> None:
    simulate(queue, payloads={"count": [{"n": 1}]}, seeds=1)
    with pytest.raises(NotRunning, match="under simulation"):
        asyncio.run(queue.open())
