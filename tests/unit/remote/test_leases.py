"""A remote worker ends a run before its lease ends in the store, whatever its clock and its renewals do."""

from __future__ import annotations

import asyncio

from hypothesis import given, strategies as st

from holdfast.clock import VirtualClock
from holdfast.core.task import Priority, RunId, Status, Task
from holdfast.engine.owned_run import CUT_OFF, OwnedRun
from holdfast.engine.owned_runs import OwnedRuns
from holdfast.remote.leases import MARGIN_SECONDS, MARGIN_SHARE, Leases
from holdfast.remote.requests import Renewal

LEASES = st.floats(5.0, 3_600.0)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["renew", "lost answer", "idle"]),
        st.floats(0.0, 2_000.0),  # what passes before the step
        st.floats(0.0, 5.0),  # how long the answer travels
    ),
    max_size=20,
)


def owned(name: str) -> OwnedRun:
    task = Task(
        id=name,
        type="t",
        queue="default",
        priority=Priority.NORMAL,
        status=Status.RUNNING,
        payload_json="null",
        metadata_json=None,
        options_json="{}",
        attempts=1,
        max_attempts=1,
        deaths=0,
        version=1,
        fence=1,
        created_at=0.0,
        updated_at=0.0,
        due_at=0.0,
    )
    run = OwnedRun(task)
    run.started = True
    run.worker = asyncio.ensure_future(asyncio.Event().wait())  # type: ignore[arg-type]
    return run


class Worker:
    """Leases with a clock that runs up to 1 % slower than the store's."""

    def __init__(self, rate: float) -> None:
        self.clock = VirtualClock()
        self.rate = rate
        self.true = 0.0
        self.runs = OwnedRuns(self.clock, lambda *_: True, lambda _: None)
        self.leases = Leases(self.clock, self.runs)
        self.run = owned("t")
        self.runs.by_id[self.run.run] = self.run
        self.ends_at = 0.0
        """When the store ends the lease, by its own time."""
        self.pause = 0.0

    async def pass_time(self, seconds: float) -> None:
        """Time passes, and the loop ticks when it wants to."""
        end = self.true + seconds
        while not self.is_cut():
            self.pause = await self.leases.tick()
            wake = self.true + max(self.pause, 1e-3) / self.rate  # a timer has its grain
            if wake >= end:
                break
            self.to(wake)
        self.to(end)

    def to(self, true: float) -> None:
        self.clock.pause((true - self.true) * self.rate)
        self.true = true

    def is_cut(self) -> bool:
        return self.run.cancelled is not None


@given(LEASES, st.floats(0.99, 1.0), STEPS)
def test_a_run_is_cut_off_before_its_lease_ends(
    lease: float, rate: float, steps: list[tuple[str, float, float]]
) -> None:
    async def play() -> None:
        worker = Worker(rate)
        worker.leases.grant([worker.run.run], worker.clock.monotonic(), lease)
        worker.ends_at = lease
        for what, before, travel in steps:
            await worker.pass_time(before)
            assert worker.is_cut() or worker.true < worker.ends_at
            if worker.is_cut():
                break
            if what == "idle":
                continue
            asked_at = worker.clock.monotonic()
            if worker.true < worker.ends_at:  # else the store has taken the run back
                worker.ends_at = worker.true + travel / 2 + lease
                await worker.pass_time(travel)
                if what == "renew" and not worker.is_cut():
                    worker.leases.grant([worker.run.run], asked_at, lease)
        if not worker.is_cut():
            deadline = worker.leases.deadline(worker.run.run)
            assert deadline is not None
            await worker.pass_time(3_600.0 * 1.02)
        assert worker.is_cut()
        assert worker.leases.ended == 1
        worker.run.worker.cancel()  # type: ignore[union-attr]

    asyncio.run(play())


@given(LEASES, st.floats(0.0, 1.0))
def test_a_run_is_not_cut_off_early(lease: float, share: float) -> None:
    async def play() -> None:
        worker = Worker(1.0)
        worker.leases.grant([worker.run.run], worker.clock.monotonic(), lease)
        deadline = lease * (1 - MARGIN_SHARE) - MARGIN_SECONDS
        worker.clock.pause(deadline * share * 0.999)
        pause = await worker.leases.tick()
        assert not worker.is_cut()
        assert pause <= deadline
        worker.run.worker.cancel()  # type: ignore[union-attr]

    asyncio.run(play())


async def test_a_run_that_is_cut_off_is_given_back_once() -> None:
    """Its worker lives: the end of its lease is not a death."""
    worker = Worker(1.0)
    worker.leases.grant([worker.run.run], worker.clock.monotonic(), 10.0)
    worker.clock.pause(10.0)
    await worker.leases.tick()
    await worker.leases.tick()
    assert worker.run.cancelled == CUT_OFF
    assert worker.run.is_renewed  # a gateway that answers while the handler stops keeps the run
    assert worker.leases.ended == 1
    worker.run.worker.cancel()  # type: ignore[union-attr]


async def test_leases_of_runs_that_ended_are_forgotten() -> None:
    worker = Worker(1.0)
    other = RunId("other", 1)
    worker.leases.grant([worker.run.run, other], 0.0, 10.0)
    await worker.leases.tick()
    assert worker.leases.deadline(other) is None
    assert worker.leases.deadline(worker.run.run) is not None
    del worker.runs.by_id[worker.run.run]
    await worker.leases.tick()
    assert worker.leases.deadline(worker.run.run) is None
    worker.run.worker.cancel()  # type: ignore[union-attr]


async def test_a_renewal_of_another_thread_counts_before_deadlines_are_judged() -> None:
    """The event loop was blocked beyond the first lease, and a thread has renewed it meanwhile."""
    clock = VirtualClock()
    runs = OwnedRuns(clock, lambda *_: True, lambda _: None)
    leases, run = Leases(clock, runs), owned("t")
    runs.by_id[run.run] = run
    leases.grant([run.run], clock.monotonic(), 9.0)
    clock.pause(6.0)
    sent_at = clock.monotonic()
    leases.renewed_aside(Renewal(sent_at, {run.run}, 9.0))
    clock.pause(6.0)
    await leases.tick()
    assert run.cancelled is None
    clock.pause(6.0)
    await leases.tick()
    assert run.cancelled == CUT_OFF
