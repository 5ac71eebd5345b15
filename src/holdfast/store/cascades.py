"""Dependents that the end of a task, or its replay, has left to settle.

A transaction settles a bounded number of dependents. The parents of the others are listed here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from holdfast.store.access import Access
from holdfast.store.scripts import apply as scripts

CASCADES_MAX: Final = 100


class CascadeStore:
    """The unsettled dependents of one store, by parent."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self.on_cut_short: Callable[[], None] = lambda: None
        """Called when a transaction has left dependents unsettled. The sweeper of this process settles
        them."""

    async def pending(self) -> list[str]:
        """Parents that have ended or were replayed, with unsettled dependents that no transaction holds."""
        return [row[0] for row in await self._access.rows("cascades", limit=CASCADES_MAX)]

    async def held(self) -> list[tuple[str, str | None]]:
        """Cascades that wait for another transaction, which holds a child, or the parent (no child)."""
        if self._access.dialect.one_writer:
            return []
        return [
            (row[0], row[1]) for row in await self._access.rows("held_cascades", limit=CASCADES_MAX)
        ]

    async def settle(self, parent_id: str) -> int:
        """Settles the next dependents of such a parent. Returns how many; 0 if another process does it."""
        access = self._access
        now = access.now()
        return await access.write(
            lambda: scripts.go_on(
                parent_id, now=now, record_id=access.ids.record(now), recorder=access.dialect
            )
        )
