"""The order in which the changes of a message take effect, and the lock that they need."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from holdfast.core.worker.changes import is_report
from holdfast.core.worker.wire import (
    Change,
    Changes,
    CheckpointChange,
    TaskChange,
)


def in_order(changes: Changes) -> Iterator[Change]:
    """The changes of a message in the order of their effect: what needs the run first, ends of it last."""
    yield from changes.output
    yield from changes.metrics
    yield from (change for change in changes.task if is_report(change))
    yield from (change for change in changes.checkpoint if change.decision is None)
    yield from (change for change in changes.checkpoint if change.decision is not None)
    yield from (change for change in changes.task if not is_report(change))


def lock_of(changes: Sequence[Change], *, skips_held: bool = False) -> str:
    """The lock statement: reports need the weaker one, see `store.scripts.apply`. `skips_held`: it skips
    the rows that another transaction holds."""
    if any(map(_ends_run, changes)):
        return "lock_free_tasks" if skips_held else "lock_tasks"
    return "lock_free_family" if skips_held else "lock_reporting"


def _ends_run(change: Change) -> bool:
    """Whether the change may end its run."""
    if isinstance(change, CheckpointChange):
        return change.decision is not None
    return isinstance(change, TaskChange) and not is_report(change)
