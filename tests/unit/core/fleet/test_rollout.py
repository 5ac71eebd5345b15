"""The reducer of a rollout: laws over any course of events, its window and its rate."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from holdfast.core.fleet.model import JobStatus
from holdfast.core.fleet.rollout import reducer as rollout
from holdfast.core.fleet.rollout.policy import (
    PLAIN,
    HostOrder,
    nth_at,
)
from holdfast.core.fleet.rollout.reducer import (
    Bucket,
    HaltMode,
    HostOutcome,
    Policy,
    ReturnHosts,
    WakeAt,
    begin,
    step,
)
from holdfast.errors import IllegalTransition
from tests.unit.core.fleet.rollout_course import FAILED, NOW, OK, Course, admitted, kinds, policies


@settings(max_examples=300)
@given(st.data(), policies, st.integers(1, 40))
def test_the_laws_hold_in_any_course_and_the_job_finishes(
    data: Any, policy: Policy, hosts: int
) -> None:
    course = Course(policy, hosts)
    for _ in range(data.draw(st.integers(0, 25))):
        if course.finished is not None:
            break
        move = data.draw(st.sampled_from(["end", "end", "early", "wait", "time", "act", "correct"]))
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
        elif move == "correct":
            course.correct(data)
        course.step(unknown=data.draw(st.integers(0, 2)), most=data.draw(st.integers(1, 9)))
    course.run_out(data.draw(st.sampled_from(Bucket)))
    course.correct(data)
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
