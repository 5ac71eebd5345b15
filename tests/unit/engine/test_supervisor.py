"""Restarts of a part that dies."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast.clock import VirtualClock
from holdfast.engine.supervisor import PAUSE_SECONDS, Supervisor
from holdfast.errors import EngineFailed


async def tick_until(clock: VirtualClock, done: Any) -> list[float]:
    """Advances the clock from deadline to deadline. Returns the pauses."""
    pauses: list[float] = []
    while not done():
        for _ in range(10):
            await asyncio.sleep(0)
        wake = clock.next_wake()
        if wake is not None:
            pauses.append(wake - clock.now())
            clock.set(wake)
    return pauses


async def test_a_part_that_dies_is_restarted_with_backoff(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = VirtualClock()
    lives = 0

    async def part() -> None:
        nonlocal lives
        lives += 1
        if lives < 5:
            raise RuntimeError("died")

    supervisor = Supervisor(clock, lambda failure: None)
    task = supervisor.start("part", part)
    pauses = await tick_until(clock, task.done)
    assert pauses == pytest.approx([PAUSE_SECONDS * 2**n for n in range(4)])
    assert supervisor.restarts == 4
    assert supervisor.running() == []
    assert "died, starting it again" in caplog.text


async def test_a_part_that_dies_too_often_is_given_up_and_reported() -> None:
    clock = VirtualClock()
    errors: list[EngineFailed] = []

    async def part() -> None:
        raise RuntimeError("always")

    supervisor = Supervisor(clock, errors.append, restarts_max=3, window_seconds=60.0)
    task = supervisor.start("part", part)
    await tick_until(clock, task.done)
    assert supervisor.restarts == 3
    assert len(errors) == 1
    assert "always" in str(errors[0])
    assert isinstance(errors[0].__cause__, RuntimeError)


async def test_deaths_outside_the_window_do_not_count() -> None:
    clock = VirtualClock()
    errors: list[EngineFailed] = []
    lives = 0

    async def part() -> None:
        nonlocal lives
        lives += 1
        if lives > 10:
            return
        await clock.sleep(100.0)
        raise RuntimeError("now and then")

    supervisor = Supervisor(clock, errors.append, restarts_max=2, window_seconds=60.0)
    task = supervisor.start("part", part)
    await tick_until(clock, task.done)
    assert errors == []
    assert supervisor.restarts == 10
    await supervisor.stop()
