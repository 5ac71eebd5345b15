"""The simulator with handlers of an application."""

from __future__ import annotations

import asyncio
from asyncio import sleep as virtual_sleep  # runs in the virtual time of the loop under test
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
    queue = TaskQueue("sqlite:////nowhere/at/all.db")

    @queue.task(max_attempts=5)
    async def count(n: int) -> int:
        await virtual_sleep(2)
        return n + 1

    @queue.task
    async def save(ctx: Context) -> None:
        await ctx.save(1)

    return queue


def test_user_handlers_run_under_faults(queue: TaskQueue, simulate: Any) -> None:
    report = simulate(queue, payloads={"count": [{"n": 1}, {"n": 2}]}, seeds=3)
    assert report.seeds == 3
    assert report.met


def test_a_failure_is_reported_with_its_smallest_run(
    queue: TaskQueue, simulate: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Uses a law that no run can keep."""

    def any_run(outcome: Outcome) -> Iterator[str]:
        yield from (f"{run.task_id} ran on {run.life}" for run in outcome.record.runs[:1])

    monkeypatch.setitem(checkers.CHECKERS, "nothing ever runs", any_run)
    with pytest.raises(AssertionError) as caught:
        simulate(queue, payloads={"count": [{"n": 1}]}, seeds=2, nodes=3, faults=["crash", "loss"])
    message = str(caught.value)
    assert message.startswith("seed 0 broke:\n  nothing ever runs: ")
    assert "The smallest run that does" in message
    again_line = next(line for line in message.splitlines() if line.startswith("Again: "))
    assert "first_seed=0, seeds=1, hours=" in again_line
    assert "nodes=1" in again_line
    assert "faults=[]" in again_line
    assert "time (s)" in message


def test_a_missing_payload_is_an_error(queue: TaskQueue, simulate: Any) -> None:
    with pytest.raises(BadConfig, match="'count' needs n: give --payload 'count="):
        simulate(queue)


def test_a_plain_handler_cannot_be_simulated(simulate: Any) -> None:
    queue = TaskQueue()

    @queue.task
    def plain() -> None:
        return

    with pytest.raises(BadConfig, match="only async handlers"):
        simulate(queue)


def test_only_the_types_with_payloads_are_simulated(queue: TaskQueue, simulate: Any) -> None:
    @queue.task
    def plain() -> None:
        return

    assert simulate(queue, payloads={"count": [{"n": 1}]}, seeds=1).met
    with pytest.raises(BadConfig, match="payloads for 'cuont', which has no handler"):
        simulate(queue, payloads={"cuont": [{"n": 1}]}, seeds=1)


def test_the_store_of_the_application_is_not_opened(queue: TaskQueue, simulate: Any) -> None:
    simulate(queue, payloads={"count": [{"n": 1}]}, seeds=1)
    with pytest.raises(NotRunning, match="under simulation"):
        asyncio.run(queue.open())
