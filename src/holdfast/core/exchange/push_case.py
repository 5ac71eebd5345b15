"""The questions that the rules of `conflict.py` put to an item and its task.

Promises: each is a function of the case alone, so that a test can enumerate all cases.
Never: decides. The order of the rows decides.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import msgspec
from msgspec.structs import replace

from holdfast.core.exchange.merge import join_progress
from holdfast.core.exchange.push import (
    Actor,
    Current,
    HoldKind,
    PushItem,
    VersionRelation,
    actor_of,
    fence_of,
    relation_of,
)
from holdfast.core.exchange.strategy import FieldClass, Strategies, Strategy, unmerged
from holdfast.core.task import LEASED, Status


class PushCase(msgspec.Struct, frozen=True):
    """An item, the task and how they relate."""

    item: PushItem
    current: Current | None
    is_deleted: bool
    strategies: Strategies
    actor: Actor
    relation: VersionRelation
    asked: Status | None
    is_content_only: bool

    @property
    def status(self) -> Status | None:
        return self.current.status if self.current else None


Predicate: TypeAlias = Callable[[PushCase], bool]


def case_of(
    item: PushItem, current: Current | None, strategies: Strategies, *, is_deleted: bool = False
) -> PushCase:
    actor = actor_of(item, current) if current else Actor.NODE
    return PushCase(
        item,
        current,
        is_deleted,
        strategies,
        actor,
        relation_of(item, current),
        item.asked,
        _is_content_only(item, current, actor),
    )


def _is_content_only(item: PushItem, current: Current | None, actor: Actor) -> bool:
    """Whether it asks for content only. A sender that is not the runner and repeats the status asks for no
    change of it; but `running` and `stuck` are statements of a runner, and `queued` asks to lift a hold."""
    if item.is_observation:
        return False
    if item.status is None:
        return True
    if current is None or actor is Actor.RUNNER or item.asked is not current.status:
        return False
    return item.asked not in LEASED and not _lifts_a_hold(item, current)


def _lifts_a_hold(item: PushItem, current: Current) -> bool:
    """Whether it asks that a held task in `queued` be `queued`."""
    is_held = current.hold.kind is not HoldKind.NONE
    return is_held and item.asked is Status.QUEUED is current.status


def status(*statuses: Status) -> Predicate:
    return lambda case: case.asked in statuses


def anything(case: PushCase) -> bool:
    return True


def content(case: PushCase) -> bool:
    return case.is_content_only


def more_than_content(case: PushCase) -> bool:
    return not case.is_content_only


def answered_mutation(case: PushCase) -> bool:
    return case.item.is_answered


def new_task(case: PushCase) -> bool:
    """Without a status a creation asks for `queued`."""
    if case.item.status is None:
        return not case.item.is_observation
    return case.asked in (Status.QUEUED, Status.PAUSED)


def deleted_task(case: PushCase) -> bool:
    return case.is_deleted


def unknown_status(case: PushCase) -> bool:
    return case.item.status is not None and case.asked is None


def same_creation(case: PushCase) -> bool:
    current, request_hash = case.current, case.item.request_hash
    is_same = current is not None and request_hash != "" and request_hash == current.request_hash
    return is_same and new_task(case)


def same_completion(case: PushCase) -> bool:
    item, current = case.item, case.current
    return (
        current is not None
        and case.asked is Status.COMPLETED
        and fence_of(item, current) == current.fence
        and (item.result_json or "null") == (current.result_json or "null")
    )


def end_with_outcome(case: PushCase) -> bool:
    return case.asked in (Status.COMPLETED, Status.FAILED) and case.item.has_outcome


def report(case: PushCase) -> bool:
    """Observed fields with no status, the same one, or `running`."""
    return not case.is_content_only and case.asked in (None, case.status, Status.RUNNING)


def own_hold_lifted(to: Status) -> Predicate:
    """Lifts the hold that the sending node set."""

    def asks(case: PushCase) -> bool:
        hold = case.current.hold if case.current else None
        is_own = hold is not None and hold.kind is HoldKind.NODE and hold.node == case.item.node
        return is_own and case.asked is to

    return asks


def firm_hold_lifted(case: PushCase) -> bool:
    """Lifts the hold of an operator, or goes on without the decision."""
    kind = case.current.hold.kind if case.current else HoldKind.NONE
    is_firm = kind in (HoldKind.OPERATOR, HoldKind.DECISION)
    return is_firm and case.asked in (Status.RUNNING, Status.QUEUED)


def another_status(case: PushCase) -> bool:
    """To lift a hold is another status too."""
    if case.current is None or case.asked is None:
        return False
    return case.asked is not case.current.status or _lifts_a_hold(case.item, case.current)


def payload(case: PushCase) -> bool:
    return case.is_content_only and FieldClass.TEXT in case.item.change.classes


def content_for_last_write(case: PushCase) -> bool:
    strategies = _strategies(case)
    return case.is_content_only and strategies == {Strategy.LAST_WRITE_WINS}


def content_for_merge(case: PushCase) -> bool:
    current, item = case.current, case.item
    if current is None or not case.is_content_only:
        return False
    return not unmerged(
        current.payload_json,
        current.payload_version,
        item.change,
        item.expected_version,
        case.strategies,
    )


def content_for_a_person(case: PushCase) -> bool:
    return case.is_content_only and Strategy.MANUAL in _strategies(case)


def _strategies(case: PushCase) -> set[Strategy]:
    return {case.strategies.of(field_class) for field_class in case.item.change.classes}


def is_unstuck(case: PushCase) -> bool:
    """Whether a runner that was stuck says that it runs, or says nothing and has progressed."""
    current, progress = case.current, case.item.progress
    if current is None or current.status is not Status.STUCK:
        return False
    if case.asked is not None or progress is None:
        return case.asked is Status.RUNNING
    progress = replace(progress, fence=current.fence)
    return join_progress(current.progress, progress) != current.progress
