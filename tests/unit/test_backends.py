"""Which store a URL names."""

from __future__ import annotations

from holdfast.clock import VirtualClock
from holdfast.store.backends import store_for
from holdfast.store.postgres.driver import AGAIN_SECONDS, CLOCK_SECONDS, PostgresDriver


def test_stores_of_one_maker_make_different_ids() -> None:
    """Processes forked from one parent have one maker; the same ids in two of them would lose tasks."""
    make = store_for("sqlite://", VirtualClock())
    first, second = make().ids, make().ids
    assert {first.task(1.0) for _ in range(10)}.isdisjoint({second.task(1.0) for _ in range(10)})


class Wire:
    """A connection whose answers take their time."""

    def __init__(self, clock: VirtualClock, there: float, back: float) -> None:
        self._clock = clock
        self._there = there
        self._back = back

    async def fetchval(self, _: str) -> float:
        self._clock.set(self._clock.now() + self._there)
        theirs = self._clock.now() + 5_000.0
        self._clock.set(self._clock.now() + self._back)
        return theirs


async def test_a_servers_clock_read_over_a_slow_way_is_not_believed() -> None:
    """It is wrong by up to half the way, and leases are judged by it."""
    clock = VirtualClock()
    driver = PostgresDriver("postgresql://nowhere/x", clock)
    await driver._read_off_clock(Wire(clock, 0.01, 0.01))  # type: ignore[arg-type]
    assert abs(driver.now() - clock.now() - 5_000.0) < 0.001
    await driver._read_off_clock(Wire(clock, 8.0, 0.0))  # type: ignore[arg-type]
    assert abs(driver.now() - clock.now() - 5_000.0) < 0.001
    assert clock.monotonic() - driver._read_off_at > CLOCK_SECONDS - 2 * AGAIN_SECONDS
