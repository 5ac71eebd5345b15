"""What operators may do to executions: type by status by phase, through `decide`."""

from __future__ import annotations

from typing import Final, NamedTuple, get_args

import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace

from holdfast.core import command as c, pinned_rules
from holdfast.core.codec import dumps
from holdfast.core.command import Instruction
from holdfast.core.decide import Refusal, Transition, decide
from holdfast.core.pinned_rules import PinnedStage, stage_of
from holdfast.core.start_once import BEFORE_GO, RunPhase, phase_json
from holdfast.core.task import ENDED, LEASED, Status, Task, TaskOptions
from tests.unit.core.fleet.test_status import NOW, make_task

S = Status
BY = ("user:ann", "a reason")
EVIDENCE: Final = c.Evidence(3, "0")


class Case(NamedTuple):
    """A task in a status and phase."""

    status: Status
    phase: RunPhase | None = None
    held: bool = False

    def task(self, *, pinned: bool = True) -> Task:
        options = TaskOptions(pinned=True, lost_after_seconds=900.0) if pinned else TaskOptions()
        leased = self.status in LEASED
        return make_task(
            status=self.status,
            options_json=dumps(options),
            fence=3,
            attempts=1,
            node="hst_1" if leased else None,
            lease_until=NOW + 60 if leased else None,
            progress_json=None if self.phase is None else phase_json(self.phase),
            held_by="user:bob" if self.held else None,
            gate="!held" if self.held and self.status is S.QUEUED else None,
            due_at=NOW + 10,
        )


NOT_ADMITTED: Final = [Case(S.BLOCKED), Case(S.BLOCKED, held=True)]
WAITING: Final = [Case(S.QUEUED), Case(S.QUEUED, held=True), Case(S.PAUSED)]
OFFERED: Final = [
    Case(S.RUNNING),
    *(Case(S.RUNNING, p) for p in (RunPhase.OFFERED, RunPhase.ACCEPTED)),
]
GOING: Final = [Case(s, p) for s in (S.RUNNING, S.STUCK) for p in (RunPhase.GO, RunPhase.STARTED)]
OVER: Final = [Case(S.FAILED), Case(S.ABORTED), Case(S.COMPLETED)]
CASES: Final = [*NOT_ADMITTED, *WAITING, *OFFERED, *GOING, *OVER]


def force(status: Status, *, evidence: bool = False) -> c.Force:
    return c.Force(BY[0], status, BY[1], "0", EVIDENCE if evidence else None)


COMMANDS: Final[list[tuple[c.OperatorCommand, list[Case]]]] = [
    (c.Abort(*BY), [*NOT_ADMITTED, *WAITING, *OFFERED, *GOING]),
    (c.Pause(*BY), [Case(S.BLOCKED), Case(S.QUEUED), *OFFERED]),
    (c.Resume(*BY), [Case(S.BLOCKED, held=True), Case(S.QUEUED, held=True), Case(S.PAUSED)]),
    (c.RetryTask(*BY), [Case(S.QUEUED), Case(S.QUEUED, held=True)]),
    (c.RetryTask(*BY, payload_json="{}"), []),
    (c.Replay(BY[0]), []),
    (c.Edit(BY[0], payload_json='{"x":1}'), []),
    (c.Edit(BY[0], metadata_json='{"x":1}'), []),
    (c.Reassign(BY[0], "hst_2"), []),
    (c.Unlock(*BY), OFFERED),
    (force(S.QUEUED), [Case(S.PAUSED), *OFFERED]),
    (force(S.PAUSED), [Case(S.QUEUED), *OFFERED]),
    (force(S.FAILED), [*NOT_ADMITTED, Case(S.PAUSED), *OFFERED, *GOING]),
    (force(S.COMPLETED), [Case(S.PAUSED), *OFFERED, *GOING]),
    (
        force(S.COMPLETED, evidence=True),
        [*WAITING, *OFFERED, *GOING, Case(S.FAILED)],
    ),
]
"""Each command with the cases in which it changes an execution."""


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize(("command", "changes"), COMMANDS, ids=lambda v: repr(v)[:60])
def test_the_table(command: c.OperatorCommand, changes: list[Case], case: Case) -> None:
    task = case.task()
    ruling = decide(task, Instruction("t", command), NOW)
    assert isinstance(ruling, Transition) == (case in changes), ruling
    if isinstance(ruling, Refusal):
        assert ruling.message
        assert not ruling.events


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize(("command", "changes"), COMMANDS, ids=lambda v: repr(v)[:60])
def test_nothing_is_allowed_that_other_tasks_refuse_and_others_are_as_before(
    command: c.OperatorCommand, changes: list[Case], case: Case
) -> None:
    plain = decide(case.task(pinned=False), Instruction("t", command), NOW)
    if case in changes:
        assert isinstance(plain, Transition)
    own = pinned_rules.refusal(case.task(), command)
    if own is not None:
        assert own.code == "illegal-transition"


def test_every_command_of_an_operator_is_judged() -> None:
    assert set(get_args(c.OperatorCommand)) == pinned_rules.OPERATOR_COMMANDS
    assert {type(command) for command, _ in COMMANDS} == pinned_rules.OPERATOR_COMMANDS


def test_the_refusal_says_what_to_do() -> None:
    dead, going = Case(S.FAILED).task(), Case(S.RUNNING, RunPhase.STARTED).task()
    rows: list[tuple[Task, c.OperatorCommand, str]] = [
        (dead, c.RetryTask(*BY), "retry the job"),
        (dead, c.Replay(BY[0]), "retry the job"),
        (dead, c.Abort(*BY), "record of its job"),
        (going, c.Pause(*BY), "may run on hst_1: only an abort"),
        (going, c.Unlock(*BY), "only an abort"),
        (going, force(S.QUEUED), "may run"),
        (going, c.Reassign(BY[0], "hst_2"), "for its host only"),
        (Case(S.BLOCKED).task(), force(S.QUEUED), "the rollout of its job admits it"),
        (Case(S.QUEUED).task(), c.Edit(BY[0], payload_json="{}"), "approved as it is"),
    ]
    for task, command, said in rows:
        ruling = decide(task, Instruction("t", command), NOW)
        assert isinstance(ruling, Refusal)
        assert said in ruling.message


@given(
    st.sampled_from(CASES),
    st.lists(st.sampled_from([command for command, _ in COMMANDS]), max_size=8),
)
def test_operators_never_repeat_a_command_that_may_have_run(
    case: Case, commands: list[c.OperatorCommand]
) -> None:
    """After a go, no commands of operators lead to a status from which an execution is claimed."""
    task = case.task()
    for command in commands:
        before = stage_of(task)
        ruling = decide(task, Instruction("t", command), NOW)
        task = ruling.after if isinstance(ruling, Transition) else task
        if before in (PinnedStage.AFTER_GO, PinnedStage.ENDED):
            assert stage_of(task) in (PinnedStage.AFTER_GO, PinnedStage.ENDED)
        if before is PinnedStage.NOT_ADMITTED:
            assert stage_of(task) is not PinnedStage.BEFORE_GO
        if task.status not in ENDED:
            assert task.assigned_to == "hst_1"
            assert task.payload_json == "{}"


def test_the_stages_cover_every_status_and_phase() -> None:
    for status in Status:
        for phase in RunPhase:
            task = replace(Case(status, phase).task())
            expected = PinnedStage.BEFORE_GO
            if status in ENDED:
                expected = PinnedStage.ENDED
            elif status is S.BLOCKED:
                expected = PinnedStage.NOT_ADMITTED
            elif status in LEASED and phase not in BEFORE_GO:
                expected = PinnedStage.AFTER_GO
            assert stage_of(task) is expected
