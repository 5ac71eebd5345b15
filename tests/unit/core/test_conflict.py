"""The rules for pushed items: laws over every combination of sender, task and item."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import pytest
from msgspec.structs import replace

from holdfast.core.exchange.conflict import OF_STATUS, ROWS, judge
from holdfast.core.exchange.merge import Progress
from holdfast.core.exchange.push import (
    Actor,
    Hold,
    HoldKind,
    LastClaim,
    PushItem,
    VersionRelation,
    actor_of,
    relation_of,
)
from holdfast.core.exchange.push_case import PushCase, case_of
from holdfast.core.exchange.strategy import Strategy
from holdfast.core.exchange.verdict import Action, Verdict
from holdfast.core.task import LEASED, TERMINAL, Status
from tests.unit.core.push_support import (
    FENCE,
    ME,
    MERGE,
    OLD_FENCE,
    OTHER,
    VERSION,
    cases,
    mine,
    pushed,
)

A, S = Action, Status
PASSIVE = {A.DUPLICATE, A.KEEP_EVIDENCE, A.REFUSE}


class Judged(NamedTuple):
    case: PushCase
    verdict: Verdict
    rows: list[str]
    """The rows that match, in order."""


@cache
def judged() -> list[Judged]:
    answers = []
    for item, current, strategies in cases():
        case = case_of(item, current, strategies)
        rows = [row.name for row in ROWS if row.matches(case)]
        answers.append(Judged(case, judge(item, current, strategies), rows))
    return answers


def test_every_combination_has_a_first_row() -> None:
    for case, verdict, rows in judged():
        assert rows, case
        assert verdict.row == rows[0]


def test_the_combinations_cover_every_row_and_column() -> None:
    assert {verdict.row for _, verdict, _ in judged()} == {row.name for row in ROWS} - {"1", "3b"}
    assert {(case.actor, case.status) for case, _, _ in judged() if case.current} >= {
        (actor, status) for actor in (Actor.FORMER, Actor.NODE) for status in Status
    }
    assert {case.relation for case, _, _ in judged()} == set(VersionRelation)


def test_no_row_is_superfluous() -> None:
    """Without a row, some item would get another verdict or none."""
    outcomes = {row.name: row.outcome for row in ROWS}
    decisive = {
        rows[0]
        for _, _, rows in judged()
        if len(rows) == 1 or outcomes[rows[0]] != outcomes[rows[1]]
    }
    # No combination has an answered mutation or a tombstone. Rows 20 and 21 give one answer.
    assert {row.name for row in ROWS} - decisive == {"1", "3b", "20"}


def test_an_answered_mutation_is_never_judged_again() -> None:
    for case, _, _ in judged()[::97]:
        item = replace(case.item, is_answered=True)
        assert judge(item, case.current, case.strategies).action is A.DUPLICATE


def test_only_the_runner_changes_a_task_that_runs() -> None:
    for case, verdict, _ in judged():
        if case.status in LEASED and case.actor is not Actor.RUNNER:
            assert verdict.action in PASSIVE | {A.EDIT, A.MERGE_CONTENT}
            assert not verdict.is_unstuck


def test_a_runner_holds_the_fence_of_a_task_that_runs() -> None:
    for case, _, _ in judged():
        if case.actor is Actor.RUNNER:
            assert case.status in LEASED
            assert case.current is not None
            assert case.item.fence in (None, case.current.fence)


def test_a_terminal_task_never_changes() -> None:
    for case, verdict, _ in judged():
        if case.status in TERMINAL:
            assert verdict.action in PASSIVE
            assert verdict.content is None


def test_no_node_lifts_a_hold_that_is_not_its_own() -> None:
    for case, verdict, _ in judged():
        if verdict.action in (A.RESUME, A.RESUME_AND_CLAIM):
            assert case.current is not None
            assert case.current.hold == Hold(HoldKind.NODE, ME)
            assert case.relation is VersionRelation.EQUAL


def test_an_item_that_asks_to_lift_a_hold_is_never_accepted_without_lifting_it() -> None:
    for case, verdict, _ in judged():
        is_held = case.current is not None and case.current.hold.kind is not HoldKind.NONE
        if is_held and case.status not in LEASED and case.asked in (S.QUEUED, S.RUNNING):
            assert verdict.action in PASSIVE | {A.RESUME, A.RESUME_AND_CLAIM}


def test_an_old_version_overwrites_content_only_by_strategy() -> None:
    for case, verdict, _ in judged():
        content = verdict.content or verdict
        change = case.item.change
        if case.relation is not VersionRelation.EQUAL:
            assert content.action is not A.EDIT
        if content.action is A.MERGE_CONTENT:
            assert case.relation is VersionRelation.STALE
            strategies = {case.strategies.of(field_class) for field_class in change.classes}
            assert Strategy.MANUAL not in strategies
            assert case.current is not None
            if change.payload_json is not None and Strategy.LAST_WRITE_WINS not in strategies:
                assert case.current.payload_version <= case.item.expected_version


def test_the_payload_of_a_task_that_runs_never_changes() -> None:
    for case, verdict, _ in judged():
        if case.status in LEASED and case.item.change.payload_json is not None:
            content = verdict.content or verdict
            assert content.action not in (A.EDIT, A.MERGE_CONTENT)


def test_content_is_judged_by_its_own_rows_and_only_after_an_accepted_status() -> None:
    for case, verdict, _ in judged():
        has_content = bool(case.item.change.classes)
        assert (verdict.content is not None) == (has_content and verdict.action in OF_STATUS)
        if verdict.content:
            assert int(verdict.content.row.rstrip("ab")) in range(22, 27)


def test_an_answer_names_an_error_exactly_when_the_item_had_no_effect() -> None:
    for case, verdict, _ in judged():
        assert (verdict.error is not None) == (verdict.action in (A.REFUSE, A.KEEP_EVIDENCE))
        assert (verdict.resolution is None) == (verdict.action is A.DUPLICATE)
        if verdict.conflict:
            assert case.item.change.classes, "a conflict record has content to settle"


@pytest.mark.parametrize(
    ("item", "is_unstuck"),
    [
        (pushed("running"), True),
        (pushed(progress=Progress(iteration=1, done=0.6)), True),
        (pushed(progress=Progress(iteration=1, done=0.5)), False),
        (pushed(progress=Progress(done=0.9)), False),
        (pushed("stuck", progress=Progress(iteration=1, done=0.6)), False),
        (pushed(has_metrics=True), False),
    ],
)
def test_a_stuck_runner_goes_on_when_it_progressed_or_says_so(
    item: PushItem, is_unstuck: bool
) -> None:
    verdict = judge(item, mine(S.STUCK), MERGE)
    assert (verdict.action, verdict.is_unstuck) == (A.MERGE_OBSERVED, is_unstuck)


@pytest.mark.parametrize(
    ("status", "claim", "sent", "actor"),
    [
        (S.RUNNING, LastClaim(ME, 1, FENCE, "c-1"), {"fence": FENCE}, Actor.RUNNER),
        (S.RUNNING, LastClaim(ME, 1, FENCE, "c-1"), {"claim_id": "c-1"}, Actor.RUNNER),
        (S.STUCK, LastClaim(ME, 1, FENCE, "c-1"), {}, Actor.RUNNER),
        (S.RUNNING, LastClaim(ME, 1, FENCE, "c-1"), {"incarnation": 2}, Actor.NODE),
        (S.RUNNING, LastClaim(ME, 1, FENCE, "c-1"), {"claim_id": "c-0"}, Actor.FORMER),
        (S.RUNNING, LastClaim(ME, 1, FENCE, "c-1"), {"fence": OLD_FENCE}, Actor.FORMER),
        (S.RUNNING, LastClaim(OTHER, 1, FENCE, "c-1"), {"fence": FENCE}, Actor.NODE),
        (S.RUNNING, LastClaim(OTHER, 1, FENCE, "c-1"), {"fence": FENCE + 1}, Actor.NODE),
        (S.RUNNING, LastClaim(OTHER, 1, FENCE, "c-1"), {}, Actor.NODE),
        (S.RUNNING, LastClaim(ME, 1, OLD_FENCE, "c-1"), {}, Actor.FORMER),
        (S.QUEUED, LastClaim(ME, 1, OLD_FENCE, "c-1"), {}, Actor.FORMER),
        (S.QUEUED, LastClaim(ME, 1, OLD_FENCE, "c-1"), {"fence": OLD_FENCE}, Actor.FORMER),
        (S.COMPLETED, None, {"fence": FENCE}, Actor.FORMER),
        (S.COMPLETED, None, {"fence": FENCE + 1}, Actor.NODE),
        (S.QUEUED, None, {"fence": 0}, Actor.NODE),
        (S.RUNNING, None, {"fence": FENCE}, Actor.NODE),
    ],
)
def test_fence_and_claim_say_who_speaks(
    status: Status, claim: LastClaim | None, sent: dict[str, object], actor: Actor
) -> None:
    current = replace(mine(status), claim=claim)
    assert actor_of(pushed(None, VERSION, **sent), current) is actor


def test_a_version_is_new_equal_stale_or_ahead() -> None:
    versions = {version: relation_of(pushed(None, version), mine(S.QUEUED)) for version in range(7)}
    assert "".join(versions.values()) == "0<<<<=>"
    assert [relation_of(pushed(None, version), None).value for version in (0, 1)] == ["0", ">"]
