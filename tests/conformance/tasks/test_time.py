"""Corrected clocks: the processes of one store agree on the time, which never goes back."""

from __future__ import annotations

from holdfast.clock import VirtualClock
from tests.backends import Bench
from tests.conformance.tasks.helpers import claim, put


class Settable(VirtualClock):
    """A machine whose wall clock is set, while the monotonic clock continues."""

    def step(self, seconds: float) -> None:
        self._time += seconds
        self._start += seconds


async def test_a_process_that_missed_a_jump_learns_of_it_by_its_heartbeat(
    shared_bench: Bench,
) -> None:
    bench = shared_bench
    jumped, steady = Settable(), Settable()
    bench.clock = jumped
    ahead = await bench.open()
    bench.clock = steady
    behind = await bench.open()
    jumped.step(3600.0)
    ahead.now()
    jumped.step(-3600.0)
    await put(behind)
    (task,) = await claim(behind, 1, node="behind")
    await ahead.heartbeat("ahead", "{}", [], 9.0)
    assert ahead.now() > behind.now() + 3000.0
    await behind.heartbeat("behind", "{}", [task.run], 9.0)
    assert abs(ahead.now() - behind.now()) < 1.0
    await behind.heartbeat("behind", "{}", [task.run], 9.0)
    swept = await ahead.sweep()
    assert swept.expired == [], "the lease of a living runner is judged by the time it was given in"


async def test_a_retry_waits_its_time_after_the_clock_was_set_right(bench: Bench) -> None:
    clock = Settable()
    bench.clock = clock
    store = await bench.open()
    clock.step(3600.0)
    await put(store, delay_seconds=0.2)
    clock.step(-3600.0)
    clock.set(clock.now() + 1.0)
    assert len(await claim(store, 1)) == 1
