"""The rules for pushed items: an example of every row."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from msgspec.structs import replace

from holdfast.core.exchange.conflict import ROWS, judge
from holdfast.core.exchange.merge import Progress
from holdfast.core.exchange.push import Current, Hold, HoldKind, PushItem
from holdfast.core.exchange.strategy import ContentChange, Strategies
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
from holdfast.core.task import Status
from tests.unit.core.push_support import (
    FENCE,
    LAST_WRITE,
    MANUAL,
    ME,
    MERGE,
    MIXED,
    OLD_FENCE,
    OTHER,
    RESULT,
    VERSION,
    current_in,
    mine,
    pushed,
)

A, E, K, Q, R, S = Action, SyncError, ConflictKind, ConflictState, Resolution, Status
PAYLOAD = ContentChange(payload_json='"new"')
LABEL = ContentChange(labels_added=frozenset({"nightly"}))
REPORT = Progress(done=0.9)
BY_ME = Hold(HoldKind.NODE, ME)
BY_OTHER = Hold(HoldKind.NODE, OTHER)
BY_OPERATOR = Hold(HoldKind.OPERATOR)
BY_DECISION = Hold(HoldKind.DECISION)
theirs = current_in


def former(status: str | None = None, **fields: object) -> PushItem:
    return pushed(status, VERSION, fence=OLD_FENCE, **fields)


class Example(NamedTuple):
    row: str
    item: PushItem
    current: Current | None
    outcome: Outcome
    strategies: Strategies = MERGE


def accepted(action: Action) -> Outcome:
    return Outcome(action, R.PLUGIN_WINS)


def refused(error: SyncError, resolution: Resolution, kind: ConflictKind | None = None) -> Outcome:
    conflict = NewConflict(kind, Q.OPEN) if kind else None
    return Outcome(A.REFUSE, resolution, error, conflict)


def late(error: SyncError) -> Outcome:
    return Outcome(A.KEEP_EVIDENCE, R.LATE, error)


def merged(resolution: Resolution) -> Outcome:
    return Outcome(A.MERGE_CONTENT, resolution, None, NewConflict(K.DIVERGED, Q.SETTLED))


SAME = Outcome(A.DUPLICATE)
STALE = VERSION - 1
AHEAD = VERSION + 1
EXAMPLES = (
    Example("1", pushed("completed", is_answered=True), theirs(S.RUNNING), SAME),
    Example("1", pushed("nonsense", is_answered=True), None, SAME),
    Example("2", pushed("queued", 0), None, accepted(A.CREATE)),
    Example("2", pushed("paused", 0, change=PAYLOAD), None, accepted(A.CREATE)),
    Example("2", pushed(None, 0, change=PAYLOAD), None, accepted(A.CREATE)),
    Example("3a", pushed("completed", 0), None, refused(E.INVALID_TRANSITION, R.REJECT)),
    Example("3a", pushed(None, 0, progress=REPORT), None, refused(E.INVALID_TRANSITION, R.REJECT)),
    Example("3c", pushed("queued", 4), None, refused(E.TASK_NOT_FOUND, R.REJECT)),
    Example("4", pushed("done"), mine(S.RUNNING), refused(E.INVALID_STATUS, R.REJECT)),
    Example("4", pushed("RUNNING", 0), theirs(S.FAILED), refused(E.INVALID_STATUS, R.REJECT)),
    Example("5a", pushed("queued", 0, request_hash="created"), theirs(S.COMPLETED), SAME),
    Example(
        "5b",
        pushed("queued", 0, request_hash="other"),
        theirs(S.QUEUED),
        refused(E.VERSION_CONFLICT, R.SERVER_WINS),
    ),
    Example(
        "5b",
        pushed("completed", 0, request_hash="created"),
        mine(S.RUNNING),
        refused(E.VERSION_CONFLICT, R.SERVER_WINS),
    ),
    Example(
        "5b",
        pushed("queued", 0),
        replace(theirs(S.QUEUED), request_hash=""),
        refused(E.VERSION_CONFLICT, R.SERVER_WINS),
    ),
    Example("6", pushed("completed", STALE, result_json=RESULT), mine(S.COMPLETED), SAME),
    Example("7a", former("completed", result_json=RESULT), theirs(S.COMPLETED), late(E.TERMINAL)),
    Example("7a", pushed("completed", result_json="2"), mine(S.COMPLETED), late(E.TERMINAL)),
    Example("7a", former("failed", has_error=True), theirs(S.ABORTED), late(E.TERMINAL)),
    Example("7b", pushed("failed"), mine(S.ABORTED), refused(E.TERMINAL, R.SERVER_WINS)),
    Example("7b", pushed(change=LABEL), theirs(S.COMPLETED), refused(E.TERMINAL, R.SERVER_WINS)),
    Example(
        "7b",
        pushed("completed", fence=FENCE, result_json=RESULT),
        theirs(S.COMPLETED),
        refused(E.TERMINAL, R.SERVER_WINS),
    ),
    Example("8", pushed(None, STALE, progress=REPORT), mine(S.RUNNING), accepted(A.MERGE_OBSERVED)),
    Example("8", pushed("running", AHEAD), mine(S.STUCK), accepted(A.MERGE_OBSERVED)),
    Example("9a", pushed("completed", STALE), mine(S.RUNNING), accepted(A.COMPLETE)),
    Example("9a", pushed("completed", fence=FENCE), mine(S.STUCK), accepted(A.COMPLETE)),
    Example("9b", pushed("failed", has_error=True), mine(S.STUCK), accepted(A.FAIL)),
    Example("10", pushed("queued"), mine(S.RUNNING), accepted(A.RELEASE)),
    Example("11", pushed("aborted"), mine(S.RUNNING), accepted(A.CANCEL)),
    Example("12", pushed("stuck"), mine(S.RUNNING), accepted(A.STALL)),
    Example("13", pushed("paused"), mine(S.STUCK), accepted(A.PAUSE)),
    Example("14", pushed("blocked"), mine(S.RUNNING), refused(E.INVALID_TRANSITION, R.REJECT)),
    Example("15a", pushed("queued"), mine(S.PAUSED, BY_ME), accepted(A.RESUME)),
    Example("15a", former("queued"), theirs(S.QUEUED, BY_ME), accepted(A.RESUME)),
    Example("15b", pushed("running"), theirs(S.PAUSED, BY_ME), accepted(A.RESUME_AND_CLAIM)),
    Example("16", pushed("running"), mine(S.PAUSED, BY_OPERATOR), refused(E.HELD, R.SERVER_WINS)),
    Example("16", pushed("queued"), theirs(S.QUEUED, BY_OPERATOR), refused(E.HELD, R.SERVER_WINS)),
    Example("16", pushed("queued"), mine(S.PAUSED, BY_DECISION), refused(E.HELD, R.SERVER_WINS)),
    Example("17", former("completed", result_json="1"), theirs(S.RUNNING), late(E.LOCK_LOST)),
    Example("17", pushed("completed"), mine(S.PAUSED, BY_OPERATOR), late(E.LOCK_LOST)),
    Example("18", former("aborted"), theirs(S.RUNNING), refused(E.LOCK_LOST, R.SERVER_WINS)),
    Example("18", former(progress=REPORT), theirs(S.QUEUED), refused(E.LOCK_LOST, R.SERVER_WINS)),
    Example("19", pushed("running"), theirs(S.QUEUED), refused(E.CLAIM_REQUIRED, R.REJECT)),
    Example(
        "19",
        pushed("running", STALE),
        theirs(S.PAUSED, BY_ME),
        refused(E.CLAIM_REQUIRED, R.REJECT),
    ),
    Example("20", pushed("completed"), theirs(S.RUNNING), refused(E.NOT_RUNNER, R.REJECT)),
    Example("20", pushed("queued"), theirs(S.FAILED), refused(E.NOT_RUNNER, R.REJECT)),
    Example("20", pushed("queued"), theirs(S.QUEUED, BY_OTHER), refused(E.NOT_RUNNER, R.REJECT)),
    Example("21", pushed(progress=REPORT), theirs(S.RUNNING), refused(E.NOT_RUNNER, R.REJECT)),
    Example("21", pushed("running"), theirs(S.RUNNING), refused(E.NOT_RUNNER, R.REJECT)),
    Example("21", pushed(result_json="1"), theirs(S.QUEUED), refused(E.NOT_RUNNER, R.REJECT)),
    Example(
        "22",
        pushed(None, AHEAD, change=LABEL),
        mine(S.RUNNING),
        refused(E.VERSION_AHEAD, R.SERVER_WINS, K.AHEAD),
        LAST_WRITE,
    ),
    Example("23", pushed(change=PAYLOAD), mine(S.STUCK), refused(E.INVALID_TRANSITION, R.REJECT)),
    Example(
        "23",
        pushed(None, STALE, change=PAYLOAD),
        theirs(S.RUNNING),
        refused(E.INVALID_TRANSITION, R.REJECT),
        LAST_WRITE,
    ),
    Example("24", pushed(change=PAYLOAD), theirs(S.FAILED), accepted(A.EDIT), MANUAL),
    Example("24", pushed("queued", change=PAYLOAD), theirs(S.QUEUED), accepted(A.EDIT)),
    Example("24", former(change=LABEL), theirs(S.RUNNING), accepted(A.EDIT)),
    Example(
        "25a",
        pushed(None, STALE, change=PAYLOAD),
        theirs(S.QUEUED),
        merged(R.PLUGIN_WINS),
        LAST_WRITE,
    ),
    Example("25b", pushed(None, STALE, change=LABEL), theirs(S.RUNNING), merged(R.MERGED)),
    Example("25b", pushed(None, STALE, change=LABEL), theirs(S.RUNNING), merged(R.MERGED), MIXED),
    Example(
        "25b",
        pushed(None, STALE, change=PAYLOAD),
        current_in(S.QUEUED, payload_version=STALE),
        merged(R.MERGED),
    ),
    Example(
        "26a",
        pushed(None, STALE, change=PAYLOAD),
        theirs(S.PAUSED),
        refused(E.VERSION_CONFLICT, R.MANUAL, K.DIVERGED),
        MIXED,
    ),
    Example(
        "26b",
        pushed(None, STALE, change=PAYLOAD),
        theirs(S.BLOCKED),
        refused(E.VERSION_CONFLICT, R.MANUAL, K.FIELD),
    ),
)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.row)
def test_a_row_decides_its_example(example: Example) -> None:
    verdict = judge(example.item, example.current, example.strategies)
    assert (verdict.row, outcome_of(verdict)) == (example.row, example.outcome)


def test_a_tombstone_tells_deleted_from_unknown() -> None:
    verdict = judge(pushed("completed", 4), None, MERGE, is_deleted=True)
    assert (verdict.row, verdict.error) == ("3b", E.TASK_DELETED)
    assert judge(pushed("queued", 0), None, MERGE, is_deleted=True).action is A.CREATE


def test_every_row_has_an_example_and_the_page_has_26_rows() -> None:
    assert {row.name for row in ROWS} == {example.row for example in EXAMPLES} | {"3b"}
    numbers = [int(row.name.rstrip("abc")) for row in ROWS]
    assert numbers == sorted(numbers)
    assert set(numbers) == set(range(1, 27))


def outcome_of(verdict: Verdict) -> Outcome:
    return Outcome(verdict.action, verdict.resolution, verdict.error, verdict.conflict)
