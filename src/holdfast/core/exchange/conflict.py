"""The rules for a pushed item: one ordered table, the first row that matches decides.

`ROWS` is the table of the protocol reference. A row there with several verdicts is several rows here: 7a, 7b.
Promises: every item gets a verdict. Only the runner ends a run; a terminal task never changes; no node lifts
the hold of an operator; an old version overwrites content only when the project's strategy says so.
Never: writes. The store carries out the action with the fence or the version in its WHERE.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec.structs import replace

from holdfast.core.exchange import push_case as asks
from holdfast.core.exchange.push import Actor, Current, PushItem, VersionRelation
from holdfast.core.exchange.push_case import Predicate, PushCase
from holdfast.core.exchange.strategy import Strategies
from holdfast.core.exchange.sync_errors import SyncError
from holdfast.core.exchange.verdict import (
    Action,
    ConflictKind,
    ConflictState,
    NewConflict,
    Outcome,
    Resolution,
    Verdict,
)
from holdfast.core.task import LEASED, TERMINAL, Status


class ConflictRow(msgspec.Struct, frozen=True):
    """One row. It matches when all its columns do."""

    name: str
    actors: frozenset[Actor]
    statuses: frozenset[Status | None]
    """None: the server has no such task."""
    asks: Predicate
    relations: frozenset[VersionRelation]
    outcome: Outcome

    def matches(self, case: PushCase) -> bool:
        return (
            case.actor in self.actors
            and case.status in self.statuses
            and case.relation in self.relations
            and self.asks(case)
        )


def _accept(action: Action) -> Outcome:
    return Outcome(action, Resolution.PLUGIN_WINS)


def _settle(resolution: Resolution) -> Outcome:
    conflict = NewConflict(ConflictKind.DIVERGED, ConflictState.SETTLED)
    return Outcome(Action.MERGE_CONTENT, resolution, None, conflict)


def _refuse(error: SyncError, by: Resolution, opens: ConflictKind | None = None) -> Outcome:
    conflict = NewConflict(opens, ConflictState.OPEN) if opens else None
    return Outcome(Action.REFUSE, by, error, conflict)


def _leave(opens: ConflictKind) -> Outcome:
    """Leaves it to a person."""
    return _refuse(SyncError.VERSION_CONFLICT, Resolution.MANUAL, opens)


def _late(error: SyncError) -> Outcome:
    return Outcome(Action.KEEP_EVIDENCE, Resolution.LATE, error)


A, E, K, R, S, V = Action, SyncError, ConflictKind, Resolution, Status, VersionRelation
Row = ConflictRow
DONE_BEFORE: Final = Outcome(A.DUPLICATE)
ANYONE: Final = frozenset(Actor)
RUNNER: Final = frozenset({Actor.RUNNER})
FORMER: Final = frozenset({Actor.FORMER})
NODE: Final = frozenset({Actor.NODE})
CLAIMANTS: Final = RUNNER | FORMER
OTHERS: Final = FORMER | NODE
NO_TASK: Final[frozenset[Status | None]] = frozenset({None})
A_TASK: Final[frozenset[Status | None]] = frozenset(S)
OPEN: Final = A_TASK - TERMINAL
HELD: Final[frozenset[Status | None]] = frozenset({S.PAUSED, S.QUEUED})
DONE: Final[frozenset[Status | None]] = frozenset({S.COMPLETED})
ENDED: Final[frozenset[Status | None]] = frozenset(TERMINAL)
TAKEN: Final[frozenset[Status | None]] = frozenset(LEASED)
MOVING: Final[frozenset[Status | None]] = frozenset({S.RUNNING})
ANY: Final = frozenset(V)
NEW: Final = frozenset({V.NEW})
AHEAD: Final = frozenset({V.AHEAD})
EQUAL: Final = frozenset({V.EQUAL})
STALE: Final = frozenset({V.STALE})

# fmt: off
ROWS: Final[tuple[ConflictRow, ...]] = (
    Row("1", ANYONE, A_TASK | NO_TASK, asks.answered_mutation, ANY, DONE_BEFORE),
    Row("2", ANYONE, NO_TASK, asks.new_task, NEW, _accept(A.CREATE)),
    Row("3a", ANYONE, NO_TASK, asks.anything, NEW, _refuse(E.INVALID_TRANSITION, R.REJECT)),
    Row("3b", ANYONE, NO_TASK, asks.deleted_task, AHEAD, _refuse(E.TASK_DELETED, R.REJECT)),
    Row("3c", ANYONE, NO_TASK, asks.anything, AHEAD, _refuse(E.TASK_NOT_FOUND, R.REJECT)),
    Row("4", ANYONE, A_TASK, asks.unknown_status, ANY, _refuse(E.INVALID_STATUS, R.REJECT)),
    Row("5a", ANYONE, A_TASK, asks.same_creation, NEW, DONE_BEFORE),
    Row("5b", ANYONE, A_TASK, asks.anything, NEW, _refuse(E.VERSION_CONFLICT, R.SERVER_WINS)),
    Row("6", CLAIMANTS, DONE, asks.same_completion, ANY, DONE_BEFORE),
    Row("7a", CLAIMANTS, ENDED, asks.end_with_outcome, ANY, _late(E.TERMINAL)),
    Row("7b", ANYONE, ENDED, asks.anything, ANY, _refuse(E.TERMINAL, R.SERVER_WINS)),
    Row("8", RUNNER, TAKEN, asks.report, ANY, _accept(A.MERGE_OBSERVED)),
    Row("9a", RUNNER, TAKEN, asks.status(S.COMPLETED), ANY, _accept(A.COMPLETE)),
    Row("9b", RUNNER, TAKEN, asks.status(S.FAILED), ANY, _accept(A.FAIL)),
    Row("10", RUNNER, TAKEN, asks.status(S.QUEUED), ANY, _accept(A.RELEASE)),
    Row("11", RUNNER, TAKEN, asks.status(S.ABORTED), ANY, _accept(A.CANCEL)),
    Row("12", RUNNER, MOVING, asks.status(S.STUCK), ANY, _accept(A.STALL)),
    Row("13", RUNNER, TAKEN, asks.status(S.PAUSED), ANY, _accept(A.PAUSE)),
    Row("14", RUNNER, TAKEN, asks.status(S.BLOCKED), ANY, _refuse(E.INVALID_TRANSITION, R.REJECT)),
    Row("15a", OTHERS, HELD, asks.own_hold_lifted(S.QUEUED), EQUAL, _accept(A.RESUME)),
    Row("15b", OTHERS, HELD, asks.own_hold_lifted(S.RUNNING), EQUAL, _accept(A.RESUME_AND_CLAIM)),
    Row("16", ANYONE, OPEN, asks.firm_hold_lifted, ANY, _refuse(E.HELD, R.SERVER_WINS)),
    Row("17", FORMER, OPEN, asks.status(S.COMPLETED, S.FAILED), ANY, _late(E.LOCK_LOST)),
    Row("18", FORMER, OPEN, asks.more_than_content, ANY, _refuse(E.LOCK_LOST, R.SERVER_WINS)),
    Row("19", NODE, OPEN - TAKEN, asks.status(S.RUNNING), ANY, _refuse(E.CLAIM_REQUIRED, R.REJECT)),
    Row("20", NODE, OPEN, asks.another_status, ANY, _refuse(E.NOT_RUNNER, R.REJECT)),
    Row("21", NODE, OPEN, asks.more_than_content, ANY, _refuse(E.NOT_RUNNER, R.REJECT)),
    Row("22", ANYONE, OPEN, asks.content, AHEAD, _refuse(E.VERSION_AHEAD, R.SERVER_WINS, K.AHEAD)),
    Row("23", ANYONE, TAKEN, asks.payload, EQUAL | STALE, _refuse(E.INVALID_TRANSITION, R.REJECT)),
    Row("24", ANYONE, OPEN, asks.content, EQUAL, _accept(A.EDIT)),
    Row("25a", ANYONE, OPEN, asks.content_for_last_write, STALE, _settle(R.PLUGIN_WINS)),
    Row("25b", ANYONE, OPEN, asks.content_for_merge, STALE, _settle(R.MERGED)),
    Row("26a", ANYONE, OPEN, asks.content_for_a_person, STALE, _leave(K.DIVERGED)),
    Row("26b", ANYONE, OPEN, asks.content, STALE, _leave(K.FIELD)),
)
# fmt: on
OF_STATUS: Final = frozenset(
    {
        A.MERGE_OBSERVED,
        A.COMPLETE,
        A.FAIL,
        A.RELEASE,
        A.CANCEL,
        A.STALL,
        A.PAUSE,
        A.RESUME,
        A.RESUME_AND_CLAIM,
    }
)
"""Actions that accept a status or a report. Content that came along is judged after them."""


def judge(
    item: PushItem,
    current: Current | None,
    strategies: Strategies,
    *,
    is_deleted: bool = False,
    rows: tuple[ConflictRow, ...] = ROWS,
) -> Verdict:
    """The verdict on an item. `is_deleted`: there is no task, but its tombstone.

    Status and observed fields are judged first. Content that comes with them is judged only when they are
    accepted, against the task as it was before."""
    case = asks.case_of(item, current, strategies, is_deleted=is_deleted)
    row = next(row for row in rows if row.matches(case))
    outcome = row.outcome
    has_content = bool(item.change.classes)
    return Verdict(
        row.name,
        outcome.action,
        outcome.resolution,
        outcome.error,
        outcome.conflict if has_content else None,
        is_unstuck=outcome.action is A.MERGE_OBSERVED and asks.is_unstuck(case),
        content=_judge_content(case) if has_content and outcome.action in OF_STATUS else None,
    )


def _judge_content(case: PushCase) -> Verdict:
    content = replace(
        case.item, status=None, progress=None, has_metrics=False, result_json=None, has_error=False
    )
    return judge(content, case.current, case.strategies)
