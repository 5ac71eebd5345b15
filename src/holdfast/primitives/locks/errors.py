"""The errors of `DistributedLock`. See `holdfast.errors` for the rest of the tree."""

from __future__ import annotations

from holdfast.errors import Conflict

__all__ = [
    "ConcurrentModification",
    "TaskAlreadyAssigned",
]


class ConcurrentModification(Conflict):
    """Another process holds the lock of what was to be changed."""

    code = "concurrent-modification"
    retryable = True


class TaskAlreadyAssigned(Conflict):
    """Another worker has the task."""

    code = "task-already-assigned"
