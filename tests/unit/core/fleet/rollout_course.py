"""Drives a rollout as its caller does, and checks the laws after every step."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import strategies as st

from holdfast.core.fleet.model import JobStatus
from holdfast.core.fleet.rollout import reducer as rollout
from holdfast.core.fleet.rollout.correction import Correction, corrected
from holdfast.core.fleet.rollout.policy import (
    BudgetName,
    GateMode,
    HostOrder,
    size_of,
    wave_of,
)
from holdfast.core.fleet.rollout.reducer import (
    AdmitHosts,
    Bucket,
    FinishJob,
    HaltJob,
    HaltMode,
    HostOutcome,
    Policy,
    ReturnHosts,
    RolloutAction,
    RolloutState,
    WakeAt,
    begin,
    step,
)

NOW = 1_800_000_000.0


OK, FAILED, LOST = Bucket.SUCCESS, Bucket.FAILED, Bucket.LOST


amounts = st.one_of(st.integers(1, 12), st.sampled_from(["1%", "10%", "50%"]))


policies = st.builds(
    Policy,
    waves=st.lists(amounts, max_size=4).map(tuple),
    max_in_flight=amounts,
    order=st.sampled_from(HostOrder),
    seed=st.integers(0, 99),
    bake_seconds=st.sampled_from([0.0, 10.0]),
    gate=st.sampled_from(GateMode),
    straggler_seconds=st.sampled_from([0.0, 30.0]),
    budgets=st.dictionaries(st.sampled_from(BudgetName), st.sampled_from([0, 2, "20%"])),
    canary_budget=st.sampled_from([None, 0, 2]),
    consecutive=st.sampled_from([None, 2, 5]),
    on_breach=st.sampled_from(HaltMode),
    rate_per_second=st.sampled_from([None, 0.5, 3.0]),
)


def admitted(actions: list[RolloutAction]) -> list[int]:
    return [nth for a in actions if isinstance(a, AdmitHosts) for nth in a.nths]


def returned(actions: list[RolloutAction]) -> list[int]:
    return [nth for a in actions if isinstance(a, ReturnHosts) for nth in a.nths]


def kinds(actions: list[RolloutAction]) -> list[str]:
    return [type(action).__name__ for action in actions]


class Course:
    """Drives a rollout as its caller does, and checks the laws after every step."""

    def __init__(self, policy: Policy, hosts: int) -> None:
        self.policy, self.hosts, self.now = policy, hosts, NOW
        self.state = begin(hosts)
        self.open: list[int] = []
        self.waiting: set[int] = set()
        """Open hosts that cannot run."""
        self.away: set[int] = set()
        """Open hosts that have left the window."""
        self.buckets: dict[int, Bucket] = {}
        self.seen: list[HostOutcome] = []
        self.started: list[int] = []
        self.finished: JobStatus | None = None
        self.wake: float | None = None

    def end(self, nth: int, bucket: Bucket) -> None:
        assert nth not in self.buckets
        self.buckets[nth] = bucket
        self.seen.append(HostOutcome(nth, bucket, None, is_away=nth in self.away))
        self.waiting.discard(nth)
        self.away.discard(nth)
        if nth in self.open:
            self.open.remove(nth)

    def step(self, unknown: int = 0, most: int = 500) -> list[RolloutAction]:
        seen, self.seen = self.seen, []
        before = self.state
        leaving, back = sorted(self.waiting - self.away), sorted(self.away - self.waiting)
        given_ = (self.policy, before, seen, unknown, self.now)
        self.state, actions = step(*given_, leaving=leaving, back=back, most=most)
        assert (self.state, actions) == step(*given_, leaving=leaving, back=back, most=most)
        self.away |= self.waiting
        decoded = msgspec.json.decode(msgspec.json.encode(self.state), type=RolloutState)
        assert decoded == self.state
        self._check(before, actions)
        return actions

    def _check(self, before: RolloutState, actions: list[RolloutAction]) -> None:
        nths, returned_ = admitted(actions), returned(actions)
        if before.halt is not None or any(isinstance(a, HaltJob) for a in actions):
            assert not nths
            assert not returned_
        assert set(returned_) <= self.away - self.waiting
        self.away -= set(returned_)
        for action in actions:
            if isinstance(action, AdmitHosts):
                assert {wave_of(self.policy, self.hosts, n) for n in action.nths} == {action.wave}
        assert not set(nths) & set(self.started), "admitted twice"
        assert not set(nths) & set(self.buckets), "admitted after its end"
        self.started += nths
        self.open += nths
        running = len(self.open) - len(self.away)
        assert (self.state.in_flight, self.state.away) == (running, len(self.away))
        if nths or returned_:
            assert running <= size_of(self.policy.max_in_flight, self.hosts)
        wakes = [action.at for action in actions if isinstance(action, WakeAt)]
        assert len(wakes) <= 1
        self.wake = wakes[0] if wakes else None
        finishes = [action.status for action in actions if isinstance(action, FinishJob)]
        if finishes:
            assert self.finished is None
            self.finished = finishes[0]
            assert len(self.buckets) == self.hosts
        for action in actions:
            if isinstance(action, HaltJob) and action.halt.is_final:
                self.skip_rest(action.halt.mode)

    def correct(self, data: Any) -> None:
        """A late result of a host that was counted is taken over."""
        pending = {outcome.nth for outcome in self.seen}
        counted = [n for n, b in self.buckets.items() if n not in pending and b is not OK]
        if not counted:
            return
        nth = data.draw(st.sampled_from(counted))
        before = self.state
        self.state = corrected(self.policy, before, [Correction(nth, self.buckets[nth], OK)])
        self.buckets[nth] = OK
        kept = ("admitted", "in_flight", "halt", "finished", "away", "open", "wave")
        for name in kept:
            assert getattr(self.state, name) == getattr(before, name), name

    def skip_rest(self, mode: HaltMode) -> None:
        """What the caller does after a final halt."""
        for nth in range(self.hosts):
            is_open = nth in self.open and mode is HaltMode.DRAIN
            if nth not in self.buckets and not is_open:
                self.end(nth, Bucket.CANCELLED)

    def run_out(self, bucket: Bucket = OK) -> None:
        """Ends everything that is open until the job has finished."""
        for _ in range(20 * self.hosts + 200):
            if self.finished is not None:
                return
            if self.state.halt is not None and not self.state.halt.is_final:
                self.state = rollout.resume(self.policy, self.state)
            if self.state.asked and self.state.halt is None:
                self.state = rollout.promote(self.state)
            for nth in list(self.open):
                self.end(nth, bucket)
            actions = self.step()
            if not admitted(actions) and self.wake is not None:
                self.now = max(self.now, self.wake)
        raise AssertionError("the job does not finish")


CANARY = Policy(
    waves=(1, "rest"), order=HostOrder.NAME, straggler_seconds=0, bake_seconds=60, budgets={}
)
