"""What each intervention does in each status: the table, cell by cell."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import pytest
from msgspec.structs import replace

from holdfast.core import command as c, gate
from holdfast.core.decide import Refusal, Transition, decide
from holdfast.core.event import Event, NewEvent, Position
from holdfast.core.event_kinds import payload_of
from holdfast.core.task import LEASED, Status, Task
from tests.unit.core.test_decide import NOW, task_in

S = Status
REFUSED: Final = "refused"
SAME: Final = "same"


class Cell(NamedTuple):
    """The expected effect."""

    status: Status | str
    """The status afterwards, REFUSED, or SAME for a command whose effect is in place."""
    takes: bool = False
    """Whether the runner loses the task by a new fence."""
    gate: str | None = None
    code: str = "illegal-transition"


def refused(code: str = "illegal-transition") -> Cell:
    return Cell(REFUSED, code=code)


ABORT, PAUSE = c.Abort("ann", "r"), c.Pause("ann", "r")
RESUME, RETRY = c.Resume("ann", "r"), c.RetryTask("ann", "r")
REASSIGN, UNLOCK = c.Reassign("ann", "b", 60.0, "r"), c.Unlock("ann", "r")
EVIDENCE: Final = c.Evidence(3, '"late"')


def to(status: Status, *, result: str | None = None, evidence: bool = False) -> c.Force:
    return c.Force("ann", status, "r", result, EVIDENCE if evidence else None)


STATUSES: Final = (
    *(S.BLOCKED, S.QUEUED, S.RUNNING, S.PAUSED),
    *(S.STUCK, S.FAILED, S.COMPLETED, S.ABORTED),
)
NO: Final = refused()
TABLE: Final[list[tuple[str, c.OperatorCommand, tuple[Cell, ...]]]] = [
    (
        "abort",
        ABORT,
        (
            *(Cell(S.ABORTED), Cell(S.ABORTED), Cell(S.ABORTED, takes=True), Cell(S.ABORTED)),
            *(Cell(S.ABORTED, takes=True), Cell(S.ABORTED), NO, NO),
        ),
    ),
    (
        "pause",
        PAUSE,
        (
            *(Cell(S.BLOCKED), Cell(S.QUEUED, gate="!held"), Cell(S.PAUSED, takes=True)),
            *(Cell(SAME), Cell(S.QUEUED, takes=True, gate="!held"), NO, NO, NO),
        ),
    ),
    (
        "resume",
        RESUME,
        (NO, NO, NO, Cell(S.QUEUED), Cell(S.QUEUED, takes=True), NO, NO, NO),
    ),
    (
        "retry",
        RETRY,
        (NO, Cell(S.QUEUED), NO, NO, Cell(S.QUEUED, takes=True), Cell(S.QUEUED), NO, NO),
    ),
    (
        "reassign",
        REASSIGN,
        (
            *(Cell(S.BLOCKED), Cell(S.QUEUED, gate="!node:b")),
            *(Cell(S.QUEUED, takes=True, gate="!node:b"), Cell(S.PAUSED)),
            *(Cell(S.QUEUED, takes=True, gate="!node:b"), NO, NO, NO),
        ),
    ),
    (
        "release the lock",
        UNLOCK,
        (
            *(refused("not-locked"), refused("not-locked"), Cell(S.QUEUED, takes=True)),
            *(refused("not-locked"), Cell(S.QUEUED, takes=True)),
            *(refused("not-locked"),) * 3,
        ),
    ),
    (
        "force queued",
        to(S.QUEUED),
        (
            *(Cell(S.QUEUED), Cell(SAME), Cell(S.QUEUED, takes=True), Cell(S.QUEUED)),
            *(Cell(S.QUEUED, takes=True), Cell(S.QUEUED), NO, NO),
        ),
    ),
    (
        "force paused",
        to(S.PAUSED),
        (
            *(NO, Cell(S.QUEUED, gate="!held"), Cell(S.PAUSED, takes=True), Cell(SAME)),
            *(NO, NO, NO, NO),
        ),
    ),
    (
        "force failed",
        to(S.FAILED),
        (
            *(Cell(S.FAILED), NO, Cell(S.FAILED, takes=True), Cell(S.FAILED)),
            *(Cell(S.FAILED, takes=True), NO, NO, NO),
        ),
    ),
    (
        "force completed with a result",
        to(S.COMPLETED, result="1"),
        (
            *(NO, NO, Cell(S.COMPLETED, takes=True), Cell(S.COMPLETED)),
            *(Cell(S.COMPLETED, takes=True), NO, NO, NO),
        ),
    ),
    (
        "force completed with evidence",
        to(S.COMPLETED, evidence=True),
        (
            *(NO, Cell(S.COMPLETED), Cell(S.COMPLETED, takes=True), Cell(S.COMPLETED)),
            *(Cell(S.COMPLETED, takes=True), Cell(S.COMPLETED), NO, NO),
        ),
    ),
    (
        "force completed with nothing",
        to(S.COMPLETED),
        (
            *(NO, NO, refused("invalid-input"), refused("invalid-input")),
            *(refused("invalid-input"), NO, NO, NO),
        ),
    ),
    ("force running", to(S.RUNNING), (NO,) * 8),
    ("force stuck", to(S.STUCK), (NO,) * 8),
    ("force aborted", to(S.ABORTED), (NO,) * 8),
]
CASES: Final = [
    pytest.param(command, status, cell, id=f"{name}, {status}")
    for name, command, cells in TABLE
    for status, cell in zip(STATUSES, cells, strict=True)
]


def waiting(status: Status) -> Task:
    """A task in this status, with the fence 3, due later, blocked by one parent if it is blocked."""
    held_by = "bob: earlier" if status is S.PAUSED else None
    task = task_in(status, due_at=NOW + 60, held_by=held_by)
    return replace(task, fence=3, waiting_on=1 if status is S.BLOCKED else 0)


@pytest.mark.parametrize(("command", "status", "cell"), CASES)
def test_an_intervention_in_a_status(
    command: c.OperatorCommand, status: Status, cell: Cell
) -> None:
    task = waiting(status)
    ruling = decide(task, c.Instruction("t", command), NOW)
    if cell.status is REFUSED or cell.status is SAME:
        assert isinstance(ruling, Refusal)
        assert ruling.code == ("already-applied" if cell.status is SAME else cell.code)
        return
    assert isinstance(ruling, Transition)
    after = ruling.after
    assert (after.status, after.gate) == (cell.status, cell.gate)
    assert after.version > task.version
    assert cell.takes == (status in LEASED)
    if cell.takes:
        assert after.fence == task.fence + 1, "the old runner's writes become evidence"
        # Only a paused task keeps its node: it prefers it when it goes on.
        assert after.node == (task.node if after.status is S.PAUSED else None)
    for event in ruling.events:
        assert event.data.get("actor", "ann") == "ann"
    assert any(event.data.get("actor") == "ann" for event in ruling.events)
    assert set(desired_in(ruling)) <= {gate.desired(after)}


def desired_in(ruling: Transition) -> list[str]:
    """What the frames of changed statuses say."""
    shown = [payload_of(Event(Position("e", 1), *event_fields(new))) for new in ruling.events]
    return [payload["desired"] for payload in shown if "to" in payload]


def event_fields(new: NewEvent) -> tuple[Any, ...]:
    return (new.kind, new.at, new.task_id, new.type, new.data)


def test_a_held_task_that_is_unblocked_is_still_to_be_paused() -> None:
    blocked = replace(waiting(S.BLOCKED), held_by="bob")
    for task in (blocked, replace(blocked, held_by=None)):
        ruling = decide(task, c.Instruction("t", c.Settle("p", S.COMPLETED, True)), NOW)
        assert isinstance(ruling, Transition)
        assert desired_in(ruling) == [gate.desired(ruling.after)]


def held(status: Status, decision_id: str | None = None) -> Task:
    decision = None if decision_id is None else f"!decision:{decision_id}"
    return replace(waiting(status), held_by="bob", gate=decision or "!held")


@pytest.mark.parametrize("status", [S.BLOCKED, S.QUEUED])
def test_a_hold_of_a_waiting_task_is_lifted(status: Status) -> None:
    ruling = decide(held(status), c.Instruction("t", RESUME), NOW)
    assert isinstance(ruling, Transition)
    assert (ruling.after.status, ruling.after.held_by) == (status, None)
    assert [event.kind for event in ruling.events] == ["task.unheld"]


def test_a_task_that_waits_for_a_decision_is_not_resumed_or_retried() -> None:
    waits = replace(waiting(S.PAUSED), held_by=None, gate="!decision:d")
    for command in (RESUME, RETRY):
        ruling = decide(waits, c.Instruction("t", command), NOW)
        assert isinstance(ruling, Refusal)
        assert ruling.code == "decision-needed"
        assert "`holdfast decision answer d CHOICE`" in ruling.message
    too = decide(waits, c.Instruction("t", PAUSE), NOW)
    assert isinstance(too, Transition)
    assert (too.after.status, too.after.gate) == (S.PAUSED, "!decision:d")
    decided = decide(too.after, c.Instruction("t", c.Wake("d", "eve", "decided")), NOW)
    assert isinstance(decided, Transition)
    assert decided.after.status is S.PAUSED, "the hold remains"
    lifted = decide(decided.after, c.Instruction("t", RESUME), NOW)
    assert isinstance(lifted, Transition)
    assert lifted.after.status is S.QUEUED


def test_a_late_result_is_refused_after_another_run() -> None:
    task = replace(waiting(S.PAUSED), fence=5)
    ruling = decide(task, c.Instruction("t", to(S.COMPLETED, evidence=True)), NOW)
    assert isinstance(ruling, Refusal)
    assert ruling.code == "conflict"


def test_a_reservation_ends_and_any_node_may_claim() -> None:
    reserved = decide(waiting(S.QUEUED), c.Instruction("t", REASSIGN), NOW)
    assert isinstance(reserved, Transition)
    early = decide(reserved.after, c.Instruction("t", c.Unassign()), NOW + 59)
    assert isinstance(early, Refusal)
    ended = decide(reserved.after, c.Instruction("t", c.Unassign()), NOW + 60)
    assert isinstance(ended, Transition)
    assert (ended.after.gate, ended.after.assigned_to) == (None, None)


RETRIED = (S.QUEUED, S.STUCK, S.FAILED)


@pytest.mark.parametrize("status", RETRIED)
@pytest.mark.parametrize("delay", [0.0, 30.0])
@pytest.mark.parametrize("payload", [None, '{"n":2}'])
def test_a_retry_takes_a_delay_and_a_payload_in_every_status(
    status: S, delay: float, payload: str | None
) -> None:
    before = replace(task_in(status), payload_json='{"n":1}', due_at=NOW + 60.0)
    command = c.RetryTask("ann", "r", delay, payload)
    ruling = decide(before, c.Instruction(before.id, command), NOW)
    assert isinstance(ruling, Transition)
    after = ruling.after
    assert (after.status, after.due_at) == (S.QUEUED, NOW + delay)
    assert after.payload_json == (payload or '{"n":1}')
    assert after.version == before.version + 1
    assert all(event.data["actor"] == "ann" for event in ruling.events)
    diffs = [event.data["before"] for event in ruling.events if "before" in event.data]
    assert len(diffs) == (payload is not None)


def test_a_retry_of_a_due_task_with_its_payload_changes_nothing() -> None:
    before = replace(task_in(S.QUEUED), payload_json='{"n":1}', due_at=NOW)
    ruling = decide(before, c.Instruction(before.id, c.RetryTask("ann", "r", 0.0, '{"n":1}')), NOW)
    assert isinstance(ruling, Refusal)
    assert ruling.code == "already-applied"


@pytest.mark.parametrize("status", [s for s in S if s not in RETRIED])
def test_a_retry_is_refused_in_the_same_words_with_a_delay(status: S) -> None:
    before = task_in(status)
    rulings = [
        decide(before, c.Instruction(before.id, command), NOW)
        for command in (
            c.RetryTask("ann", "r"),
            c.RetryTask("ann", "r", 5.0),
            c.RetryTask("ann", "r", 0.0, "1"),
        )
    ]
    assert rulings[0] == rulings[1] == rulings[2]
    assert isinstance(rulings[0], Refusal)
    assert "can be retried" in rulings[0].message
