"""Locks: leases with a fence on the store, and Redlock on Redis to avoid duplicate work.

    from holdfast.locks import Locks

docs/howto/locks.md says which one to use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast._lazy import lazily

if TYPE_CHECKING:
    from holdfast.primitives.locks import (
        FAMILIES,
        AsyncRedlock,
        BlockingEfficiencyLocks,
        BlockingLease,
        BlockingLocks,
        ConcurrentModification,
        ConcurrentModificationError,
        DistributedLock,
        EfficiencyLease,
        EfficiencyLocks,
        Lease,
        LeaseInfo,
        LockHandle,
        Locks,
        LossReason,
        OptimisticLockError,
        Redlock,
        TaskAlreadyAssigned,
        TaskAlreadyAssignedError,
        update_with_retry,
    )

__all__ = [
    "FAMILIES",
    "AsyncRedlock",
    "BlockingEfficiencyLocks",
    "BlockingLease",
    "BlockingLocks",
    "ConcurrentModification",
    "ConcurrentModificationError",
    "DistributedLock",
    "EfficiencyLease",
    "EfficiencyLocks",
    "Lease",
    "LeaseInfo",
    "LockHandle",
    "Locks",
    "LossReason",
    "OptimisticLockError",
    "Redlock",
    "TaskAlreadyAssigned",
    "TaskAlreadyAssignedError",
    "update_with_retry",
]

if not TYPE_CHECKING:
    __getattr__ = lazily(__name__, {"holdfast.primitives.locks": __all__})
