"""Bounds of the changes in a worker's message.

Promises: a change that passes can be bound to a statement of every database, and has numbers and JSON that
the rules compute with. A change that does not pass is refused by itself; the rest of its message counts.
"""

from __future__ import annotations

from typing import Final

import msgspec

from holdfast.core import codec
from holdfast.core.check import SECONDS_MAX, check_choice, check_name, check_number, check_whole
from holdfast.core.output import StreamName
from holdfast.core.wire import WHOLE_MAX
from holdfast.core.worker.wire import (
    Change,
    Changes,
    CheckpointChange,
    MetricsChange,
    OutputChunk,
    TaskChange,
)
from holdfast.errors import InvalidInput

MILLISECONDS_MAX: Final = int(SECONDS_MAX * 1_000)


class WrongChange(msgspec.Struct, frozen=True):
    """A change out of the bounds."""

    change: Change
    error: InvalidInput

    @property
    def task_id(self) -> str:
        """The id of its task, if a statement can take it; else empty."""
        try:
            return check_name("taskId", self.change.task_id)
        except InvalidInput:
            return ""

    @property
    def fence(self) -> int:
        return self.change.fence if 0 <= self.change.fence <= WHOLE_MAX else 0


def bounded(changes: Changes) -> tuple[Changes, list[WrongChange]]:
    """The changes within the bounds, and the others."""
    wrong: list[WrongChange] = []
    kept = Changes(
        task=tuple(change for change in changes.task if _passes(change, wrong)),
        output=tuple(change for change in changes.output if _passes(change, wrong)),
        checkpoint=tuple(change for change in changes.checkpoint if _passes(change, wrong)),
        metrics=tuple(change for change in changes.metrics if _passes(change, wrong)),
    )
    return (kept if wrong else changes), wrong


def _passes(change: Change, wrong: list[WrongChange]) -> bool:
    try:
        _check(change)
    except InvalidInput as error:
        wrong.append(WrongChange(change, error))
        return False
    return True


def _check(change: Change) -> None:
    check_name("taskId", change.task_id)
    check_whole("fence", change.fence, least=0, most=WHOLE_MAX)
    match change:
        case TaskChange():
            if change.delay_ms is not None:
                check_whole("delayMs", change.delay_ms, least=0, most=MILLISECONDS_MAX)
        case OutputChunk():
            check_choice("stream", change.stream, StreamName)
            if change.start is not None:
                check_whole("start", change.start, least=0, most=WHOLE_MAX)
        case CheckpointChange():
            _check_checkpoint(change)
        case MetricsChange():
            check_number("cost", change.cost, most=float(WHOLE_MAX))


def _check_checkpoint(change: CheckpointChange) -> None:
    check_name("checkpointId", change.checkpoint_id)
    decision = change.decision
    if decision is None:
        return
    check_whole("deadlineMs", decision.deadline_ms, least=0, most=MILLISECONDS_MAX)
    check_name("key", decision.key or change.checkpoint_id)
    for field, text in (
        ("schemaJson", decision.schema_json),
        ("defaultJson", decision.default_json),
    ):
        if text:
            _check_json(field, text)


def _check_json(field: str, text: str) -> None:
    if codec.is_deeper(text.encode("utf-8", "replace"), codec.DEPTH_MAX):
        raise InvalidInput(f"{field} is nested deeper than {codec.DEPTH_MAX}: make it flatter")
    try:
        codec.loads(text)
    except (ValueError, msgspec.MsgspecError, UnicodeError):
        raise InvalidInput(f"{field} is not JSON") from None
