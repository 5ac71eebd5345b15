"""The waves of a rollout: gates, stragglers, hosts that are away and come back."""

from __future__ import annotations

import pytest

from holdfast.core.fleet.model import JobStatus
from holdfast.core.fleet.rollout import reducer as rollout
from holdfast.core.fleet.rollout.policy import (
    GateMode,
    HostOrder,
)
from holdfast.core.fleet.rollout.reducer import (
    AdmitHosts,
    AskGate,
    Bucket,
    HaltJob,
    OpenWave,
    Policy,
    ReturnHosts,
    WakeAt,
)
from holdfast.errors import IllegalTransition
from tests.unit.core.fleet.rollout_course import (
    CANARY,
    FAILED,
    NOW,
    OK,
    Course,
    admitted,
    kinds,
    returned,
)


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


def test_hosts_that_ended_before_their_wave_are_passed_over() -> None:
    course = Course(Policy(waves=(2, "rest"), order=HostOrder.NAME, budgets={}), 6)
    for nth in (0, 1, 4):
        course.end(nth, Bucket.BLOCKED)
    actions = course.step()
    assert actions == [OpenWave(1), OpenWave(2), AdmitHosts(2, (2, 3, 5))]
    assert course.state.waves[0].ended.blocked == 2
    course.run_out()
    assert course.finished is JobStatus.PARTIAL
