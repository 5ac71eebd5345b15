"""Runs that must not start twice, and tasks that stay reserved for their node."""

from __future__ import annotations

import msgspec
import pytest
from msgspec.structs import replace

from holdfast.core import command as c
from holdfast.core.command import Instruction
from holdfast.core.decide import Refusal, Transition, claim, decide
from holdfast.core.gate import of_node
from holdfast.core.start_once import RunPhase, phase_json, phase_of
from holdfast.core.task import FailureKind, Priority, Status, Task, TaskOptions

NOW = 1_000.0
LOST_AFTER = 900.0


def make(max_attempts: int = 1, **changes: object) -> Task:
    options = TaskOptions(pinned=True, lost_after_seconds=LOST_AFTER)
    task = Task(
        id="t",
        type="fleet.run",
        queue="fleet",
        priority=Priority.NORMAL,
        status=Status.BLOCKED,
        payload_json="{}",
        metadata_json=None,
        options_json=msgspec.json.encode(options).decode(),
        attempts=0,
        max_attempts=max_attempts,
        deaths=0,
        version=1,
        fence=0,
        created_at=NOW,
        updated_at=NOW,
        due_at=NOW,
        assigned_to="hst_1",
    )
    return replace(task, **changes)


def moved(task: Task, command: c.Command, now: float, fence: int | None = None) -> Task:
    ruling = decide(task, Instruction("t", command, fence=fence), now)
    assert isinstance(ruling, Transition), ruling
    assert ruling.events
    return ruling.after


def running(phase: RunPhase | None, max_attempts: int = 1) -> Task:
    queued = moved(make(max_attempts), c.Admit(), NOW)
    task = claim(queued, node="hst_1", lease_seconds=60, now=NOW, claim_id="t#1").after
    return task if phase is None else replace(task, progress_json=phase_json(phase))


def test_an_admitted_task_waits_for_its_node() -> None:
    task = moved(make(), c.Admit(), NOW)
    assert (task.status, task.gate) == (Status.QUEUED, of_node("hst_1"))
    again = decide(task, Instruction("t", c.Admit()), NOW)
    assert isinstance(again, Refusal)


def test_a_task_with_open_dependencies_is_not_admitted() -> None:
    assert isinstance(decide(make(waiting_on=1), Instruction("t", c.Admit()), NOW), Refusal)


def test_a_pinned_task_stays_reserved_for_its_node_after_a_claim() -> None:
    task = running(None)
    assert task.assigned_to == "hst_1"
    released = moved(task, c.Release("drain"), NOW + 1, fence=task.fence)
    assert (released.gate, released.attempts) == (of_node("hst_1"), 0)


@pytest.mark.parametrize("phase", [None, RunPhase.OFFERED, RunPhase.ACCEPTED])
def test_without_a_go_nothing_is_spent(phase: RunPhase | None) -> None:
    task = running(phase)
    after = moved(task, c.Expire(), NOW + 60, fence=task.fence)
    assert (after.status, after.attempts, after.deaths) == (Status.QUEUED, 0, 0)
    assert after.fence == task.fence + 1
    assert after.gate == of_node("hst_1")


@pytest.mark.parametrize("phase", [RunPhase.GO, RunPhase.STARTED])
def test_after_the_go_the_outcome_is_unknown_and_the_runner_may_report(phase: RunPhase) -> None:
    task = running(phase)
    stuck = moved(task, c.Expire(), NOW + 60, fence=task.fence)
    assert (stuck.status, stuck.fence) == (Status.STUCK, task.fence)
    assert stuck.lease_until == NOW + 60 + LOST_AFTER
    assert phase_of(stuck) is phase
    done = moved(stuck, c.Complete("0"), NOW + 100, fence=task.fence)
    assert done.status is Status.COMPLETED


def test_what_stays_unknown_is_lost_and_a_late_result_is_evidence() -> None:
    task = running(RunPhase.STARTED)
    stuck = moved(task, c.Expire(), NOW + 60, fence=task.fence)
    lost = moved(stuck, c.Expire(), NOW + 60 + LOST_AFTER, fence=task.fence)
    assert lost.status is Status.FAILED
    assert lost.failure is not None
    assert lost.failure.kind is FailureKind.LOST
    late = decide(lost, Instruction("t", c.Complete("0"), fence=task.fence), NOW + 2_000)
    assert isinstance(late, Refusal)
    assert [event.kind for event in late.events] == ["task.late"]


def test_a_lost_run_of_a_type_that_may_repeat_runs_again() -> None:
    task = running(RunPhase.STARTED, max_attempts=3)
    stuck = moved(task, c.Expire(), NOW + 60, fence=task.fence)
    again = moved(stuck, c.Expire(), NOW + 60 + LOST_AFTER, fence=task.fence)
    assert (again.status, again.attempts, again.gate) == (Status.QUEUED, 1, of_node("hst_1"))
    assert again.fence == task.fence + 1
    assert again.due_at > NOW + 60 + LOST_AFTER


def test_an_unknown_phase_counts_as_offered() -> None:
    assert phase_of(replace(running(None), progress_json='{"phase": "flying"}')) is RunPhase.OFFERED
    assert phase_of(replace(running(None), progress_json="0.5")) is RunPhase.OFFERED
