"""What halts a rollout, and the status with which its job ends."""

from __future__ import annotations

import pytest

from holdfast.core.fleet.model import JobStatus
from holdfast.core.fleet.rollout import reducer as rollout
from holdfast.core.fleet.rollout.policy import (
    PLAIN,
    BudgetName,
)
from holdfast.core.fleet.rollout.reducer import (
    Bucket,
    HaltCause,
    HaltJob,
    HaltMode,
    Policy,
    begin,
)
from holdfast.errors import IllegalTransition
from tests.unit.core.fleet.rollout_course import FAILED, LOST, OK, Course, admitted, kinds


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
