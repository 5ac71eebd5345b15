"""A call that fails a given number of times, and a clock for it."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.clock import VirtualClock
from holdfast.primitives.retry import (
    retry,
)


class Flaky:
    """Fails a given number of times, then answers; records the times of its calls."""

    def __init__(self, clock: VirtualClock, failures: int, error: Exception | None = None) -> None:
        self._clock = clock
        self._left = failures
        self._error = error or ConnectionError("gone")
        self.at: list[float] = []

    def __call__(self) -> str:
        self.at.append(self._clock.monotonic())
        if self._left > 0:
            self._left -= 1
            raise self._error
        return "fine"

    async def awaited(self) -> str:
        return self()

    @property
    def pauses(self) -> list[float]:
        return [after - before for before, after in zip(self.at, self.at[1:], strict=False)]


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(0.0)


def given_up(flaky: Flaky, clock: VirtualClock, **options: Any) -> Exception:
    with pytest.raises(type(flaky._error)) as raised:
        retry(flaky, deterministic_clock=clock, **options)
    return raised.value
