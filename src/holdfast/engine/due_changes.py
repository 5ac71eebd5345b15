"""Changes that are due at a time: progress that did not come, reservations, decisions and interventions that
have ended, nodes that are late and have tasks that prefer them. Part of the sweeper.

Promises: a deadline that has passed takes effect with the next sweep. A row that another transaction holds
is tried again then. Never: decides; the core judges each row by the time of the store.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from holdfast.core.command import Instruction, Stall, Unassign
from holdfast.core.transition import Transition
from holdfast.engine import outcome_log
from holdfast.errors import NotFound
from holdfast.store.by_id import Deadline, DueKind
from holdfast.store.port import RowHeld
from holdfast.store.store import Store

HELD_SECONDS: Final = 1.0
"""Pause before another try of a row that could not be changed."""


class DueChanges:
    def __init__(self, store: Store, on_changed: Callable[[], None]) -> None:
        self._store = store
        self._on_changed = on_changed

    async def round(self) -> float | None:
        """Applies what is due. Returns the seconds until the next deadline; None if there is none."""
        deadlines = await self._store.by_id.deadlines()
        now = self._store.now()
        due = [deadline for deadline in deadlines if deadline.at <= now]
        if not due:
            return max(0.0, deadlines[0].at - now) if deadlines else None
        try:
            is_changed = await self._apply(due)
        except RowHeld:
            return HELD_SECONDS
        if not is_changed:
            return HELD_SECONDS
        self._on_changed()
        return 0.0

    async def _apply(self, due: Sequence[Deadline]) -> bool:
        """Applies each kind. Returns whether anything changed."""
        changes = [
            await self._tasks(due),
            await self._preferred(_ids(due, DueKind.PREFERENCE)),
            await self._decisions(_ids(due, DueKind.DECISION)),
            await self._interventions(_ids(due, DueKind.INTERVENTION)),
        ]
        return any(changes)

    async def _tasks(self, due: Sequence[Deadline]) -> bool:
        instructions = [
            *(Instruction(task_id, Stall()) for task_id in _ids(due, DueKind.STALL)),
            *(Instruction(task_id, Unassign()) for task_id in _ids(due, DueKind.UNASSIGN)),
        ]
        if not instructions:
            return False
        rulings = await self._store.apply(instructions, wait=False, brief=True)
        for ruling in rulings:
            outcome_log.stalled(ruling)
        return any(isinstance(ruling, Transition) for ruling in rulings)

    async def _preferred(self, nodes: Sequence[str]) -> bool:
        return bool(nodes) and bool(await self._store.upkeep.open_preferred(nodes))

    async def _decisions(self, ids: Sequence[str]) -> bool:
        is_changed = False
        for decision_id in ids:
            try:
                ended = await self._store.decisions.lapse(decision_id)
            except NotFound:  # Pruned with its task since it was listed.
                continue
            is_changed = is_changed or ended is not None
        return is_changed

    async def _interventions(self, ids: Sequence[str]) -> bool:
        if not ids:
            return False
        rows = await self._store.interventions.end_due(ids)
        return any(not row.is_pending for row in rows)


def _ids(due: Sequence[Deadline], kind: DueKind) -> list[str]:
    return [deadline.id for deadline in due if deadline.kind is kind]
