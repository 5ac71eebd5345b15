"""Changes of tasks that are due at a time: progress that did not come, reservations that have ended. Part of
the sweeper.

Promises: a deadline that has passed takes effect with the next sweep. A row that another transaction holds
is tried again then. Never: decides; the core judges each task by the time of the store.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from holdfast.core.transition import Transition
from holdfast.store.port import RowHeld
from holdfast.store.store import Store

HELD_SECONDS: Final = 1.0
"""Pause before another try of a task that could not be changed."""


class DueChanges:
    def __init__(self, store: Store, on_changed: Callable[[], None]) -> None:
        self._store = store
        self._on_changed = on_changed

    async def round(self) -> float | None:
        """Applies what is due. Returns the seconds until the next deadline; None if there is none."""
        deadlines = await self._store.by_id.deadlines()
        now = self._store.now()
        due = [deadline.instruction for deadline in deadlines if deadline.at <= now]
        if due:
            try:
                rulings = await self._store.apply(due, wait=False, brief=True)
            except RowHeld:
                return HELD_SECONDS
            if not any(isinstance(ruling, Transition) for ruling in rulings):
                return HELD_SECONDS
            self._on_changed()
            return 0.0
        return max(0.0, deadlines[0].at - now) if deadlines else None
