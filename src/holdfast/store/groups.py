"""Reads of task groups."""

from __future__ import annotations

from holdfast.core.group import GroupProgress
from holdfast.store.access import Access
from holdfast.store.scripts import groups as scripts


class GroupStore:
    """The groups of one store."""

    def __init__(self, access: Access) -> None:
        self._access = access

    async def progress(self, group_id: str) -> GroupProgress | None:
        """How far a group is, at one moment. None if there is no such group."""
        return await self._access.driver.snapshot(lambda: scripts.progress(group_id))

    async def project(self, group_id: str) -> str | None:
        """The project of a group. None if there is no such group."""
        rows = await self._access.rows("get_group", id=group_id)
        return rows[0][1] if rows else None

    async def members(
        self, group_id: str, *, after: int = -1, limit: int = 10_000
    ) -> list[tuple[int, str]]:
        """The numbers and ids of the tasks behind a number, in order. Pruned tasks are missing."""
        rows = await self._access.rows("group_members", id=group_id, after=after, limit=limit)
        return [(row[0], row[1]) for row in rows]

    async def open_members(
        self, group_id: str, *, below: int, limit: int = 1
    ) -> list[tuple[int, str]]:
        """The numbers and ids of tasks that have not ended, of those below a number, the last first."""
        rows = await self._access.rows("open_members", id=group_id, below=below, limit=limit)
        return [(row[0], row[1]) for row in rows]
