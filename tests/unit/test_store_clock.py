"""The store's time: it never goes back, never stands still, and processes of one store agree on it."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given, strategies as st

from holdfast.engine.patience import WAITS_MAX, Patience
from holdfast.store.store_clock import ADOPT_SECONDS_MAX, PACE, StoreClock


class Machine:
    """A wall clock that can be set, and a monotonic one that cannot."""

    def __init__(self) -> None:
        self.monotonic = 50.0
        self.offset = 1_800_000_000.0

    def wall(self) -> float:
        return self.monotonic + self.offset

    def store_clock(self) -> StoreClock:
        return StoreClock(self.wall, lambda: self.monotonic)


def test_time_advances_after_a_clock_that_was_ahead_is_corrected() -> None:
    machine = Machine()
    store_clock = machine.store_clock()
    machine.offset += 3600.0
    ahead = store_clock.now()
    machine.offset -= 3600.0
    machine.monotonic += 10.0
    assert store_clock.now() == ahead + 10.0 * PACE


def test_time_that_is_ahead_meets_its_source_again() -> None:
    machine = Machine()
    store_clock = machine.store_clock()
    machine.offset += 60.0
    store_clock.now()
    machine.offset -= 60.0
    machine.monotonic += 60.0 / (1.0 - PACE) + 1.0
    assert store_clock.now() == machine.wall()


def test_a_step_forward_is_followed_at_once() -> None:
    machine = Machine()
    store_clock = machine.store_clock()
    store_clock.now()
    machine.offset += 3600.0
    assert store_clock.now() == machine.wall()


def test_a_time_that_was_adopted_outlasts_a_call_of_another_thread() -> None:
    """The thread that writes reads the clock too, at any moment of an `adopt` in that of an event loop."""
    machine, calls = Machine(), list[Callable[[], None]]()

    def monotonic() -> float:
        if calls:
            calls.pop()()  # Another thread is in the middle of `now`.
        return machine.monotonic

    store_clock = StoreClock(machine.wall, monotonic)
    here = store_clock.now()
    calls.append(lambda: store_clock.adopt(here + 3600.0))
    store_clock.now()
    assert store_clock.now() == here + 3600.0


def test_a_process_that_is_ahead_is_followed() -> None:
    machine = Machine()
    store_clock = machine.store_clock()
    here = store_clock.now()
    store_clock.adopt(here + 3600.0)
    assert store_clock.now() == here + 3600.0
    machine.monotonic += 5.0
    assert store_clock.now() == here + 3600.0 + 5.0 * PACE


def test_a_process_with_a_broken_clock_is_not_followed() -> None:
    machine = Machine()
    store_clock = machine.store_clock()
    here = store_clock.now()
    store_clock.adopt(here + ADOPT_SECONDS_MAX + 10.0)
    assert store_clock.now() == here
    store_clock.adopt(here - 100.0)
    assert store_clock.now() == here


steps = st.lists(
    st.tuples(st.floats(0.0, 100.0), st.floats(-5000.0, 5000.0), st.floats(-2000.0, 2000.0)),
    max_size=30,
)


@given(steps)
def test_time_always_advances_whatever_the_clock_does(
    drawn: list[tuple[float, float, float]],
) -> None:
    machine = Machine()
    store_clock = machine.store_clock()
    last = store_clock.now()
    for passed, stepped, ahead in drawn:
        machine.monotonic += passed
        machine.offset += stepped
        now = store_clock.now()
        # A millionth for the resolution of a float of this size.
        assert now >= last + PACE * passed - 1e-6
        assert now >= machine.wall()
        store_clock.adopt(now + ahead)
        last = store_clock.now()
        assert last >= now


def test_a_sweeper_whose_time_jumped_waits_one_lease_and_then_judges() -> None:
    patience = Patience(9.0)
    assert patience.remaining(100.0) == 0.0
    patience.plan(105.0)
    assert patience.remaining(107.9) == 0.0, "less than a third of a lease endangers no runner"
    patience.plan(110.0)
    assert patience.remaining(200.0) == 9.0
    patience.plan(209.0)
    assert patience.remaining(204.0) == 5.0
    patience.plan(209.0)
    assert patience.remaining(5000.0) == 9.0, "a second jump starts the wait again"
    patience.plan(5009.0)
    assert patience.remaining(5009.0) == 0.0
    patience.plan(5014.0)
    assert patience.remaining(5015.0) == 0.0


def test_a_clock_that_keeps_jumping_does_not_delay_the_sweep_forever() -> None:
    patience = Patience(9.0)
    now = 0.0
    for _ in range(WAITS_MAX):
        patience.plan(now)
        now += 100.0
        assert patience.remaining(now) == 9.0
    patience.plan(now)
    assert patience.remaining(now + 100.0) == 0.0
