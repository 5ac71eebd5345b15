"""The reducer of a rollout: laws over any course of events, and the cases of the contract."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from holdfast.core.fleet.model import JobStatus
from holdfast.core.fleet.rollout import reducer as rollout
from holdfast.core.fleet.rollout.policy import (
    PLAIN,
    BudgetName,
    GateMode,
    HostOrder,
    nth_at,
    size_of,
    wave_of,
)
from holdfast.core.fleet.rollout.reducer import (
    AdmitHosts,
    AskGate,
    Bucket,
    FinishJob,
    HaltCause,
    HaltJob,
    HaltMode,
    HostOutcome,
    OpenWave,
    Policy,
    ReturnHosts,
    RolloutAction,
    RolloutState,
    WakeAt,
    begin,
    step,
)
from holdfast.errors import IllegalTransition

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


@settings(max_examples=300)
@given(st.data(), policies, st.integers(1, 40))
def test_the_laws_hold_in_any_course_and_the_job_finishes(
    data: Any, policy: Policy, hosts: int
) -> None:
    course = Course(policy, hosts)
    for _ in range(data.draw(st.integers(0, 25))):
        if course.finished is not None:
            break
        move = data.draw(st.sampled_from(["end", "end", "early", "wait", "time", "act"]))
        if move == "end" and course.open:
            course.end(data.draw(st.sampled_from(course.open)), data.draw(st.sampled_from(Bucket)))
        elif move == "early":
            free = [n for n in range(hosts) if n not in course.buckets]
            if free:
                course.end(data.draw(st.sampled_from(free)), data.draw(st.sampled_from(Bucket)))
        elif move == "wait" and course.open:
            course.waiting ^= {data.draw(st.sampled_from(course.open))}
        elif move == "time":
            course.now += data.draw(st.sampled_from([0.1, 1.0, 40.0]))
        elif move == "act":
            act(data, course)
        course.step(unknown=data.draw(st.integers(0, 2)), most=data.draw(st.integers(1, 9)))
    course.run_out(data.draw(st.sampled_from(Bucket)))
    assert course.state.ended.total == hosts
    for bucket in Bucket:
        count = sum(found is bucket for found in course.buckets.values())
        assert getattr(course.state.ended, bucket.value) == count
    assert step(policy, course.state, [], 0, course.now) == (course.state, [])


def act(data: Any, course: Course) -> None:
    """A person does something, if the state allows it."""
    what = data.draw(st.sampled_from(["pause", "resume", "promote", "drain", "abort"]))
    before = course.state
    try:
        match what:
            case "pause":
                course.state = rollout.pause(before, reason="r", actor="ann")
            case "resume":
                course.state = rollout.resume(course.policy, before)
            case "promote":
                course.state = rollout.promote(before)
            case mode:
                halted = rollout.halt(before, HaltMode(mode), reason="r", actor="ann")
                course.state = halted
                assert halted.halt is not None
                course.skip_rest(halted.halt.mode)
    except IllegalTransition:
        assert course.state is before


@settings(max_examples=50)
@given(policies, st.integers(1, 60))
def test_without_a_failure_every_host_succeeds(policy: Policy, hosts: int) -> None:
    course = Course(policy, hosts)
    course.run_out()
    assert course.finished is JobStatus.SUCCESS
    assert sorted(course.started) == list(range(hosts))


def test_a_request_without_a_rollout_is_a_sliding_window() -> None:
    course = Course(PLAIN, 120)
    actions = course.step()
    assert kinds(actions) == ["OpenWave", "AdmitHosts"]
    assert admitted(actions) == list(range(50))
    for nth in range(3):
        course.end(nth, FAILED)
    assert admitted(course.step()) == [50, 51, 52]
    course.run_out()
    assert course.finished is JobStatus.PARTIAL


def test_waves_open_one_after_the_other() -> None:
    course = Course(Policy(waves=(1, "5%", "rest"), bake_seconds=60), 100)
    assert [len(admitted(course.step()))] == [1]
    assert admitted(course.step()) == []
    course.end(course.open[0], OK)
    assert course.step() == [WakeAt(NOW + 60)]
    course.now += 60
    actions = course.step()
    assert actions[0] == OpenWave(2)
    assert len(admitted(actions)) == 5
    for nth in list(course.open):
        course.end(nth, OK)
    course.step()
    course.now += 60
    assert len(admitted(course.step())) == 50
    assert [wave.size for wave in course.state.waves] == [1, 5, 94]


def test_a_failed_canary_halts_the_job() -> None:
    course = Course(Policy(budgets={}), 100)
    course.step()
    course.end(course.open[0], FAILED)
    actions = course.step()
    assert isinstance(actions[0], HaltJob)
    assert "canary: 1 of 0" in actions[0].halt.reason
    assert kinds(course.step()) == ["FinishJob"]
    assert course.finished is JobStatus.FAILED


def test_a_budget_is_used_up_only_above_its_limit() -> None:
    course = Course(Policy(waves=(), budgets={BudgetName.FAILED: "2%"}), 100)
    course.step()
    for nth in course.open[:2]:
        course.end(nth, FAILED)
    assert len(admitted(course.step())) == 2
    course.end(course.open[0], FAILED)
    assert isinstance(course.step()[0], HaltJob)


def test_unknown_hosts_weigh_on_the_lost_budget_while_they_last() -> None:
    policy = Policy(waves=(), budgets={BudgetName.LOST: 1}, on_breach=HaltMode.PAUSE)
    course = Course(policy, 100)
    course.step()
    assert course.step(unknown=1) == []
    assert isinstance(course.step(unknown=2)[0], HaltJob)
    course.state = rollout.resume(policy, course.state, unknown=2)
    assert course.step(unknown=2) == []
    assert isinstance(course.step(unknown=3)[0], HaltJob)


def test_consecutive_failures_halt_and_a_success_starts_again() -> None:
    course = Course(Policy(waves=(), budgets={}, consecutive=2), 100)
    course.step()
    a, b, c, d = course.open[:4]
    for nth, bucket in ((a, FAILED), (b, OK), (c, LOST)):
        course.end(nth, bucket)
        assert not any(isinstance(x, HaltJob) for x in course.step())
    course.end(d, Bucket.TIMEOUT)
    assert isinstance(course.step()[0], HaltJob)


def test_consecutive_failures_halt_though_a_success_was_counted_in_the_same_step() -> None:
    course = Course(Policy(waves=(), budgets={}, consecutive=2), 100)
    course.step()
    for nth, bucket in zip(course.open[:3], (FAILED, FAILED, OK), strict=True):
        course.end(nth, bucket)
    assert isinstance(course.step()[0], HaltJob)


def test_a_pause_by_a_budget_keeps_its_counters_and_one_more_pauses_again() -> None:
    policy = Policy(waves=(), budgets={BudgetName.FAILED: 0}, on_breach=HaltMode.PAUSE)
    course = Course(policy, 100)
    course.step()
    course.end(course.open[0], FAILED)
    assert isinstance(course.step()[0], HaltJob)
    course.end(course.open[0], OK)
    assert course.step() == []
    course.state = rollout.resume(policy, course.state)
    assert len(admitted(course.step())) == 2
    assert course.state.ended.failed == 1
    course.end(course.open[0], FAILED)
    assert isinstance(course.step()[0], HaltJob)


def test_a_breach_ends_a_job_that_a_person_has_paused() -> None:
    course = Course(Policy(waves=(), budgets={BudgetName.FAILED: 0}), 100)
    course.step()
    course.state = rollout.pause(course.state, reason="lunch", actor="ann")
    course.end(course.open[0], FAILED)
    actions = course.step()
    assert isinstance(actions[0], HaltJob)
    assert actions[0].halt.is_final


def test_a_gate_asks_once_and_a_person_opens_the_wave() -> None:
    course = Course(Policy(waves=(1, "rest"), gate=GateMode.ASK), 10)
    course.step()
    course.end(course.open[0], OK)
    assert course.step() == [AskGate(2)]
    assert course.step() == []
    course.state = rollout.promote(course.state)
    assert kinds(course.step()) == ["OpenWave", "AdmitHosts"]
    with pytest.raises(IllegalTransition):
        rollout.promote(course.state)


def test_stragglers_do_not_hang_a_wave_and_keep_their_place() -> None:
    course = Course(Policy(waves=(3, "rest"), straggler_seconds=300, budgets={}), 10)
    course.step()
    straggler, *others = course.open
    course.waiting = {straggler}
    for nth in others:
        course.end(nth, OK)
    assert course.step() == [WakeAt(NOW + 300)]
    course.now += 299
    assert course.step() == [WakeAt(NOW + 300)]
    course.now += 1
    assert kinds(course.step()) == ["OpenWave", "AdmitHosts"]
    course.end(straggler, Bucket.UNREACHABLE)
    course.run_out()
    assert course.finished is JobStatus.PARTIAL
    assert course.state.waves[0].ended.unreachable == 1


def test_unreachable_hosts_leave_the_window_to_others() -> None:
    course = Course(Policy(waves=(), max_in_flight=2, budgets={}), 10)
    course.step()
    course.waiting = {course.open[0]}
    assert len(admitted(course.step())) == 1


def test_hosts_that_come_back_return_one_by_one_and_before_new_ones() -> None:
    course = Course(Policy(waves=(), max_in_flight=2, order=HostOrder.NAME, budgets={}), 10)
    course.step()
    course.waiting = {0, 1}
    assert admitted(course.step()) == [2, 3]
    course.waiting = set()
    assert course.step() == []
    course.end(2, OK)
    assert course.step() == [ReturnHosts((0,))]
    course.end(3, OK)
    course.end(0, OK)
    assert course.step() == [ReturnHosts((1,)), AdmitHosts(1, (4,))]


def test_the_rate_counts_hosts_that_come_back() -> None:
    policy = Policy(waves=(), order=HostOrder.NAME, budgets={}, rate_per_second=1.0)
    course = Course(policy, 2)
    assert admitted(course.step()) == [0]
    course.waiting = {0}
    course.now += 1.0
    assert admitted(course.step()) == [1]
    course.waiting = set()
    assert course.step() == [WakeAt(course.now + 1.0)]
    course.now += 1.0
    assert course.step() == [ReturnHosts((0,))]


CANARY = Policy(
    waves=(1, "rest"), order=HostOrder.NAME, straggler_seconds=0, bake_seconds=60, budgets={}
)


def passed_over(hosts: int = 4) -> Course:
    """A course whose first wave was closed before anything ran in it; the window is empty."""
    course = Course(CANARY, hosts)
    course.step()
    course.waiting = {0}
    course.step()
    course.now += 60
    assert admitted(course.step()) == [1, 2, 3]
    course.waiting = {0, 1, 2, 3}
    course.step()
    return course


def test_a_wave_that_was_passed_over_runs_before_later_ones_and_is_baked() -> None:
    course = passed_over()
    course.waiting = set()
    assert course.step() == [ReturnHosts((0,))]
    assert course.step() == []
    course.end(0, OK)
    assert course.step() == [WakeAt(course.now + 60)]
    course.now += 60
    assert course.step() == [ReturnHosts((1, 2, 3))]


def test_a_canary_that_comes_back_late_and_fails_halts_the_job() -> None:
    course = passed_over()
    course.waiting = set()
    course.step()
    course.end(0, FAILED)
    actions = course.step()
    assert isinstance(actions[0], HaltJob)
    assert returned(actions) == returned(course.step()) == []


def test_a_canary_that_is_gone_again_does_not_hang_the_job() -> None:
    course = passed_over()
    course.waiting = {1, 2, 3}
    assert course.step() == [ReturnHosts((0,))]
    course.waiting = {0}
    assert course.step() == [ReturnHosts((1, 2, 3))]


def test_a_wave_in_which_something_ran_does_not_hold_up_later_ones() -> None:
    policy = Policy(waves=(2, "rest"), order=HostOrder.NAME, straggler_seconds=0, budgets={})
    course = Course(policy, 4)
    course.step()
    course.waiting = {0}
    course.end(1, OK)
    assert admitted(course.step()) == [2, 3]
    course.waiting = {0, 2}
    course.step()
    course.waiting = set()
    assert course.step() == [ReturnHosts((0, 2))]


def test_the_window_may_change_between_steps() -> None:
    course = Course(Policy(waves=(), max_in_flight=2), 100)
    course.step()
    course.policy = msgspec.structs.replace(course.policy, max_in_flight=5)
    assert len(admitted(course.step())) == 3
    course.policy = msgspec.structs.replace(course.policy, max_in_flight=1)
    course.end(course.open[0], OK)
    assert course.step() == []


@given(st.sampled_from([0.5, 2.0, 10.0]), st.lists(st.floats(0.01, 3), min_size=5, max_size=40))
def test_the_rate_is_kept_over_any_time(rate: float, pauses: list[float]) -> None:
    course = Course(Policy(waves=(), max_in_flight=1_000, rate_per_second=rate), 1_000)
    times = []
    for pause in pauses:
        times += [course.now] * len(admitted(course.step()))
        course.now += pause
    for at, first in enumerate(times):
        for count, last in enumerate(times[at:], start=1):
            assert count <= rate * (last - first) + max(1.0, rate) + 0.001


def test_a_rate_wakes_the_job_when_the_next_host_may_start() -> None:
    course = Course(Policy(waves=(), rate_per_second=0.5), 10)
    assert len(admitted(course.step())) == 1
    assert course.wake == NOW + 2
    course.now = course.wake
    assert len(admitted(course.step())) == 1


def test_a_step_admits_a_bounded_number() -> None:
    course = Course(Policy(waves=(), max_in_flight=2_000), 5_000)
    actions = course.step()
    assert len(admitted(actions)) == rollout.ADMIT_MAX
    assert course.wake == NOW


def test_hosts_that_ended_before_their_wave_are_passed_over() -> None:
    course = Course(Policy(waves=(2, "rest"), order=HostOrder.NAME, budgets={}), 6)
    for nth in (0, 1, 4):
        course.end(nth, Bucket.BLOCKED)
    actions = course.step()
    assert actions == [OpenWave(1), OpenWave(2), AdmitHosts(2, (2, 3, 5))]
    assert course.state.waves[0].ended.blocked == 2
    course.run_out()
    assert course.finished is JobStatus.PARTIAL


@pytest.mark.parametrize(
    ("cause", "status"),
    [
        (HaltCause.OPERATOR, JobStatus.CANCELLED),
        (HaltCause.REJECTED, JobStatus.REJECTED),
        (HaltCause.EXPIRED, JobStatus.EXPIRED),
        (HaltCause.BUDGET, JobStatus.FAILED),
        (HaltCause.REFUSED, JobStatus.FAILED),
    ],
)
def test_the_cause_of_a_halt_is_the_status_of_the_job(cause: HaltCause, status: JobStatus) -> None:
    course = Course(PLAIN, 3)
    course.step()
    course.end(0, OK)
    course.step()
    course.state = rollout.halt(course.state, HaltMode.ABORT, reason="r", actor="ann", cause=cause)
    course.skip_rest(HaltMode.ABORT)
    assert kinds(course.step()) == ["FinishJob"]
    assert course.finished is status


@pytest.mark.parametrize(
    ("cause", "status"),
    [
        (HaltCause.OPERATOR, JobStatus.SUCCESS),
        (HaltCause.EXPIRED, JobStatus.SUCCESS),
        (HaltCause.BUDGET, JobStatus.SUCCESS),
        (HaltCause.REJECTED, JobStatus.REJECTED),
    ],
)
def test_a_job_whose_hosts_all_succeeded_is_a_success_unless_people_rejected_it(
    cause: HaltCause, status: JobStatus
) -> None:
    course = Course(PLAIN, 3)
    course.step()
    course.state = rollout.halt(course.state, HaltMode.DRAIN, reason="r", actor="ann", cause=cause)
    for nth in range(3):
        course.end(nth, OK)
    assert kinds(course.step()) == ["FinishJob"]
    assert course.finished is status


@pytest.mark.parametrize(
    ("ends", "status"),
    [
        ((OK, Bucket.FAILED), JobStatus.PARTIAL),
        ((Bucket.FAILED, Bucket.TIMEOUT), JobStatus.FAILED),
        ((OK, Bucket.CANCELLED), JobStatus.CANCELLED),
    ],
)
def test_an_abort_is_the_status_only_if_it_ended_a_host(
    ends: tuple[Bucket, Bucket], status: JobStatus
) -> None:
    course = Course(PLAIN, 2)
    course.step()
    course.state = rollout.halt(course.state, HaltMode.DRAIN, reason="r", actor="ann")
    for nth, end in enumerate(ends):
        course.end(nth, end)
    course.step()
    assert course.finished is status


def test_a_halt_is_final_and_a_drain_can_become_an_abort() -> None:
    state = rollout.halt(begin(3), HaltMode.DRAIN, reason="r", actor="ann")
    assert rollout.halt(state, HaltMode.DRAIN, reason="again", actor="bob") is state
    aborted = rollout.halt(state, HaltMode.ABORT, reason="now", actor="bob")
    assert aborted.halt is not None
    assert (aborted.halt.mode, aborted.halt.actor) == (HaltMode.ABORT, "ann")
    for wish in (rollout.promote, lambda s: rollout.resume(PLAIN, s)):
        with pytest.raises(IllegalTransition):
            wish(aborted)
    with pytest.raises(IllegalTransition):
        rollout.pause(aborted, reason="r", actor="ann")


def test_an_ended_job_does_not_change() -> None:
    course = Course(PLAIN, 1)
    course.run_out()
    with pytest.raises(IllegalTransition):
        rollout.pause(course.state, reason="r", actor="ann")
    assert course.state.finished is JobStatus.SUCCESS


def test_the_state_of_a_large_job_is_small() -> None:
    policy = Policy(
        waves=(*("4%",) * 19, "rest"), max_in_flight=3_000, budgets={}, canary_budget=None
    )
    course = Course(policy, 50_000)
    state = course.state
    seen: list[HostOutcome] = []
    while state.finished is None:
        state, actions = step(policy, state, seen, 0, NOW, most=5_000)
        seen = [HostOutcome(nth, FAILED if nth % 7 == 0 else OK) for nth in admitted(actions)]
        assert len(msgspec.json.encode(state)) < 2_048
    assert state.ended.total == 50_000


def test_a_step_does_not_walk_through_all_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    """One end leads to one admission, and to no other look at a host."""
    looks: list[int] = []

    def counted(policy: Policy, hosts: int, place: int) -> int:
        looks.append(place)
        return nth_at(policy, hosts, place)

    monkeypatch.setattr(rollout, "nth_at", counted)
    state, actions = step(PLAIN, begin(10_000), [], 0, NOW)
    assert len(looks) == 50
    first = admitted(actions)[0]
    looks.clear()
    step(PLAIN, state, [HostOutcome(first, OK, 1)], 0, NOW)
    assert len(looks) == 1
