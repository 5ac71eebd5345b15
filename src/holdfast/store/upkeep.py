"""Upkeep around tasks: announcements of nodes, pauses of queues, pruning, and what a sweeper waits for.

Promises: changes that operators and other nodes need to know have an event in the same transaction.
Announcements and pruning have none: each is one statement that may be repeated. A store at rest is looked at
with one statement.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from typing import Any

import msgspec

from holdfast.core.turns import WeightChange
from holdfast.store.access import Access
from holdfast.store.beside import Beside
from holdfast.store.rows import TypeRow
from holdfast.store.script import StatementCall, one
from holdfast.store.scripts import (
    admin,
    nodes as node_scripts,
    types as type_scripts,
    weights as weight_scripts,
)
from holdfast.store.scripts.audit import Act


class NextUpkeep(msgspec.Struct, frozen=True):
    """What a sweeper has to do next."""

    lease_at: float | None
    """When the first lease ends. It may be in the past."""
    change_at: float | None
    """When the first deadline ends: of progress, a reservation, a decision, an intervention."""
    is_left: bool
    """Children are to be linked or dependents to be settled, or a task prefers a node, which may be late."""


class Upkeep:
    """The upkeep of one store."""

    def __init__(self, access: Access) -> None:
        self._access = access

    async def next(self) -> NextUpkeep:
        """Reads what is next. The parts that do it read again, with their locks."""
        access = self._access
        now = access.now()
        row = await access.driver.read(lambda: access.dialect.next_upkeep(now=now))
        return NextUpkeep(row[0], row[1], bool(row[2]))

    async def register_types(
        self, types: Sequence[TypeRow], *, actor: str, project: str = "", act: Act | None = None
    ) -> None:
        """Registers the types of a node. `actor`: who defines them. `project`: the project that the node is
        limited to. Conflict if another project, or a node of the store, defines one of them otherwise. `act`:
        the request of the API that defines them, for the audit."""
        rows = [(row.name, row.queue, row.config_json) for row in types]
        await self._access.run(
            partial(type_scripts.register_types, rows=rows, actor=actor, project=project, act=act)
        )

    async def announce_schedules(self, names: Sequence[str], *, now: float) -> None:
        """Records that the code of a live node has these schedules."""
        await self._run("announce_schedules", names=list(names), now=now)

    async def set_weight(
        self, change: WeightChange, *, actor: str, reason: str = "", beside: Beside | None = None
    ) -> None:
        """Sets how many tasks a key of a fair type starts in one turn, from the next claim on."""
        await self._access.run(
            partial(
                weight_scripts.set_weight, change=change, actor=actor, reason=reason, beside=beside
            )
        )

    async def leave(self, node: str) -> None:
        """Removes a node that stops. Tasks that prefer it are open to all."""
        await self._access.run(partial(node_scripts.leave, node=node))

    async def open_preferred(self, nodes: Collection[str]) -> int:
        """Opens tasks that prefer one of these nodes, if it is late or gone. Returns how many."""
        return await self._access.run(partial(node_scripts.open_late, nodes=nodes))

    async def lose_nodes(self, *, forget_before: float) -> None:
        """Declares silent nodes lost, and removes those that were silent before `forget_before`."""
        await self._access.run(partial(node_scripts.lose, forget_before=forget_before))

    async def pause_queue(
        self,
        name: str,
        *,
        actor: str,
        reason: str,
        expected_version: int | None = None,
        beside: Beside | None = None,
    ) -> None:
        await self._access.run(
            partial(
                admin.pause_queue,
                name=name,
                actor=actor,
                reason=reason,
                expected_version=expected_version,
                beside=beside,
            )
        )

    async def resume_queue(
        self,
        name: str,
        *,
        actor: str,
        reason: str = "",
        expected_version: int | None = None,
        beside: Beside | None = None,
    ) -> None:
        await self._access.run(
            partial(
                admin.resume_queue,
                name=name,
                actor=actor,
                reason=reason,
                expected_version=expected_version,
                beside=beside,
            )
        )

    async def prune_entries(self, *, now: float, limit: int) -> int:
        """Removes expired entries of the ledger. Returns how many."""
        return len(await self._run("prune_entries", now=now, limit=limit))

    async def prune_limits(self, *, before: float, limit: int) -> int:
        """Removes limits that no task has used since `before`. Returns how many."""
        return len(await self._run("prune_limits", before=before, limit=limit))

    async def prune_turns(self, *, before: float, limit: int) -> int:
        """Removes turns of lanes that no claim has used since `before`. Returns how many."""
        return len(await self._run("prune_turns", before=before, limit=limit))

    async def prune_counters(self, *, limit: int) -> int:
        """Removes counters that are zero. Returns how many."""
        return len(await self._run("prune_counters", limit=limit))

    async def prune_marks(self, *, before: float, limit: int) -> int:
        """Removes marks of old commits. Returns how many."""
        return len(await self._run("prune_marks", before=before, limit=limit))

    async def prune_types(self, *, before: float) -> None:
        """Removes types without tasks that no node has registered since `before`."""
        await self._run("prune_types", before=before)

    async def _run(
        self, statement: str, rows: list[tuple[Any, ...]] | None = None, **params: Any
    ) -> list[Any]:
        # A copy for each run: a driver may change the parameters.
        return await self._access.driver.write_one(
            lambda: one(StatementCall(statement, dict(params), rows))
        )
