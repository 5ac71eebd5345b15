"""The interventions of a store: issue, deliver to runners, acknowledge, read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from holdfast.core import intervention as rules
from holdfast.core.intervention import AckOutcome, Intervention, NewIntervention
from holdfast.core.task import RunId, Task
from holdfast.core.transition import Refusal
from holdfast.store.access import Access
from holdfast.store.beside import Beside
from holdfast.store.script import Guard, guarded
from holdfast.store.scripts import interventions as scripts
from holdfast.store.scripts.audit import Act
from holdfast.store.scripts.interventions import Issued, read_intervention

ACT: Final = Act("tasks.intervene")


class InterventionStore:
    """The part of a store that keeps interventions."""

    __slots__ = ("_access",)

    def __init__(self, access: Access) -> None:
        self._access = access

    def new_id(self) -> str:
        ids, now = self._access.ids, self._access.now()
        return rules.PREFIX + ids.task(now).replace("-", "")

    async def issue(
        self, new: NewIntervention, *, act: Act = ACT, beside: Beside | None = None
    ) -> Issued | Refusal:
        """Changes the task and writes the row, its events and the audit, in one transaction."""
        issued = await self._access.run(
            lambda dialect, ids, now: scripts.issue(
                new,
                act=act,
                now=now,
                record_id=ids.record(now),
                recorder=dialect,
                beside=beside,
            )
        )
        if isinstance(issued, Issued) and not issued.is_repeat:
            self._access.watch.intervention_stepped(issued.intervention)
        return issued

    async def check_node(self, node: str, task: Task) -> None:
        """InvalidInput if the task cannot be assigned to the node."""
        await self._access.driver.read(lambda: scripts.check_node(node, task))

    async def deliver(self, node: str) -> list[Intervention]:
        """The commands that wait for a node, in the order of issue. They count as delivered. Call it with
        each heartbeat of the node: a command comes again until it is acknowledged."""
        if not await self._access.rows("pending_for_node", node=node, limit=1):
            return []
        return await self._access.run(
            lambda dialect, ids, now: scripts.deliver(
                node, now=now, record_id=ids.record(now), recorder=dialect
            )
        )

    async def acknowledge(
        self,
        intervention_id: str,
        outcome: AckOutcome,
        detail: str = "",
        *,
        node: str | None = None,
        guard: Guard | None = None,
    ) -> Intervention | None:
        """Ends a command by the answer of its runner. `node`: only a command of this node; None if it is not.
        `guard`: runs before, in the same transaction. A repeat gets the row as it is."""
        since = self._access.now()
        row = await self._access.run(
            lambda dialect, ids, now: guarded(
                guard,
                scripts.acknowledge(
                    intervention_id,
                    outcome,
                    detail,
                    node=node,
                    now=now,
                    record_id=ids.record(now),
                    recorder=dialect,
                ),
            )
        )
        self._access.watch.interventions_ended(() if row is None else (row,), since)
        return row

    async def unwind(self, runs: Sequence[RunId], *, has_stopped: bool) -> list[Intervention]:
        """Notes that a process has learned of its lost runs, or that their handlers have stopped."""
        pairs: list[tuple[object, ...]] = [(run.task_id, run.fence) for run in runs]
        if not await self._access.read_rows("pending_for_runs", pairs):
            return []
        since = self._access.now()
        rows = await self._access.run(
            lambda dialect, ids, now: scripts.unwind(
                runs,
                has_stopped=has_stopped,
                now=now,
                record_id=ids.record(now),
                recorder=dialect,
            )
        )
        self._access.watch.interventions_ended(rows, since)
        return rows

    async def end_due(self, ids_due: Sequence[str]) -> list[Intervention]:
        """Ends commands whose time has passed."""
        since = self._access.now()
        rows = await self._access.run(
            lambda dialect, ids, now: scripts.end_due(
                ids_due, now=now, record_id=ids.record(now), recorder=dialect
            )
        )
        self._access.watch.interventions_ended(rows, since)
        return rows

    async def get(self, intervention_id: str) -> Intervention | None:
        rows = await self._access.rows("get_intervention", id=intervention_id)
        return read_intervention(rows[0]) if rows else None

    async def of_task(
        self, task_id: str, *, after: str | None = None, limit: int
    ) -> list[Intervention]:
        """One page of the interventions on a task, the latest first."""
        rows = await self._access.rows(
            "interventions_of", task_id=task_id, after=after, limit=limit
        )
        return [read_intervention(row) for row in rows]


__all__ = ["Act", "InterventionStore", "Issued"]
