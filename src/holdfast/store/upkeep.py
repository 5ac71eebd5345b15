"""What surrounds tasks: what nodes announce, which queues are paused, and what retention forgets.

Promises: what operators and other nodes have to know is an event in the same transaction. Announcements and
pruning have none: each is one statement, and a repeated one changes nothing more.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from holdfast.store.access import Access
from holdfast.store.rows import TypeRow
from holdfast.store.script import StatementCall, one
from holdfast.store.scripts import admin, nodes


class Upkeep:
    """The upkeep of one store."""

    __slots__ = ("_access",)

    def __init__(self, access: Access) -> None:
        self._access = access

    async def register_types(self, types: Sequence[TypeRow], *, node: str, now: float) -> None:
        rows = [(row.name, row.queue, row.config_json) for row in types]
        await self._run("register_types", rows, node=node, now=now)

    async def announce_schedules(self, names: Sequence[str], *, now: float) -> None:
        """A node whose code has these schedules says so."""
        await self._run("announce_schedules", names=list(names), now=now)

    async def leave(self, node: str) -> None:
        """A node stops."""
        await self._access.run(partial(nodes.leave, node=node))

    async def lose_nodes(self, *, forget_before: float) -> None:
        """Declares silent nodes lost, and forgets those that were silent before."""
        await self._access.run(partial(nodes.lose, forget_before=forget_before))

    async def pause_queue(self, name: str, *, actor: str, reason: str) -> None:
        await self._access.run(partial(admin.pause_queue, name=name, actor=actor, reason=reason))

    async def resume_queue(self, name: str, *, actor: str) -> None:
        await self._access.run(partial(admin.resume_queue, name=name, actor=actor))

    async def prune_entries(self, *, now: float, limit: int) -> int:
        """Entries of the ledger that have expired; how many went."""
        return len(await self._run("prune_entries", now=now, limit=limit))

    async def prune_limits(self, *, before: float, limit: int) -> int:
        """Limits that no task has used since; how many went."""
        return len(await self._run("prune_limits", before=before, limit=limit))

    async def prune_counters(self, *, limit: int) -> int:
        """Counters that are zero; how many went."""
        return len(await self._run("prune_counters", limit=limit))

    async def prune_marks(self, *, before: float, limit: int) -> int:
        """Marks of old commits; how many went."""
        return len(await self._run("prune_marks", before=before, limit=limit))

    async def prune_types(self, *, before: float) -> None:
        """Types that no node has registered since and no task is of."""
        await self._run("prune_types", before=before)

    async def _run(
        self, statement: str, rows: list[tuple[Any, ...]] | None = None, **params: Any
    ) -> list[Any]:
        # The parameters are bound once for each run: a driver may change them.
        return await self._access.driver.write_one(
            lambda: one(StatementCall(statement, dict(params), rows))
        )
