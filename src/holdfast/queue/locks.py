"""Use cases of locks: who holds what, and taking it away.

Promises: a revocation is recorded with who and why; a resource that is not held is NotFound.
"""

from __future__ import annotations

from holdfast.core.lease import Audit
from holdfast.primitives.locks import LeaseInfo, Locks
from holdfast.queue.by import By


class LockAdmin:
    """What may be asked of the locks of a store."""

    def __init__(self, locks: Locks) -> None:
        self._locks = locks

    async def list(self, *, after: str = "", limit: int = 50) -> list[LeaseInfo]:
        """What is held, by resource; `after` is the last one of the page before."""
        return await self._locks.list(after=after, limit=limit)

    async def show(self, resource: str) -> LeaseInfo:
        """One resource with its waiters, first in line first, and what operators did, latest first."""
        return await self._locks.show(resource)

    async def revoke(self, resource: str, by: By) -> Audit:
        """Takes the lease from its holder: the fence rises, so that its late writes are refused."""
        by.of_unversioned("a lock")
        return await self._locks.revoke(resource, by=by.actor, reason=by.reason)
