"""Locks: leases with a fence in the database, and Redlock on Redis to save work."""

from __future__ import annotations

from holdfast.core.lease import LossReason
from holdfast.primitives.locks.blocking import BlockingEfficiencyLocks, BlockingLease, BlockingLocks
from holdfast.primitives.locks.distributed import (
    ConcurrentModificationError,
    DistributedLock,
    LockHandle,
    OptimisticLockError,
    TaskAlreadyAssignedError,
    update_with_retry,
)
from holdfast.primitives.locks.efficiency import EfficiencyLease, EfficiencyLocks
from holdfast.primitives.locks.errors import ConcurrentModification, TaskAlreadyAssigned
from holdfast.primitives.locks.locks import Lease, LeaseInfo, Locks
from holdfast.primitives.locks.meters import FAMILIES
from holdfast.primitives.locks.redlock import AsyncRedlock, Redlock

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
