"""Use cases of locks: list, show, revoke.

Promises: a revocation is recorded with its actor and reason. A resource that is not held raises NotFound.
"""

from __future__ import annotations

from holdfast.core.lease import Audit
from holdfast.primitives.locks import LeaseInfo, Locks
from holdfast.queue.by import By


class LockAdmin:
    """The use cases of the locks of a store."""

    def __init__(self, locks: Locks) -> None:
        self._locks = locks

    async def list(self, *, after: str = "", limit: int = 50) -> list[LeaseInfo]:
        """Returns the held locks, by resource. `after`: the last resource of the previous page."""
        return await self._locks.list(after=after, limit=limit)

    async def show(self, resource: str) -> LeaseInfo:
        """Returns one lock with its waiters, in order, and its audit entries, the latest first."""
        return await self._locks.show(resource)

    async def revoke(self, resource: str, by: By) -> Audit:
        """Revokes the lease of the holder. The fence rises, so late writes of the holder are refused."""
        by.of_unversioned("a lock")
        return await self._locks.revoke(resource, by=by.actor, reason=by.reason, beside=by.beside)
