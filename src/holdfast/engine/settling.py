"""Continues cascades that transactions left unfinished (`store/scripts/cascade.py`). Part of the sweeper.

Promises: children and parents that are free are settled at once, in batches. While other transactions
hold the remaining ones, the tries back off to one every `PAUSE_SECONDS_MAX`; then a held row is logged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from holdfast.engine.backoff import PAUSE_SECONDS_MAX, Backoff
from holdfast.engine.loop import Loop, log
from holdfast.store.store import Store

ROUNDS_MAX: Final = 10
"""Batches of each cascade before the sweeper checks leases again."""


class Settling:
    def __init__(self, loop: Loop, store: Store, on_settled: Callable[[], None]) -> None:
        self._loop = loop
        self._store = store
        self._on_settled = on_settled
        self._backoff = Backoff()
        self._named: set[str] = set()
        """Held tasks that were logged."""

    async def round(self) -> float | None:
        """Settles some batches. Returns the seconds until the next round; None when nothing is left."""
        for _ in range(ROUNDS_MAX):
            if not await self._batches():
                return await self._held()
            self._backoff.reset()
            self._on_settled()
        return 0.0

    async def _batches(self) -> int:
        """Settles a batch of each cascade that can continue. Returns the number of settled tasks."""
        done = 0
        for parent_id in await self._store.cascades.pending():
            what = f"settling the dependents of {parent_id}"
            done += await self._loop.guard(what, self._store.cascades.settle(parent_id)) or 0
        return done

    async def _held(self) -> float | None:
        cascades = await self._store.cascades.held()
        if not cascades:
            self._backoff.reset()
            self._named.clear()
            return None
        seconds = self._backoff.next_seconds()
        if seconds == PAUSE_SECONDS_MAX:
            self._name(*cascades[0])
        return seconds

    def _name(self, parent_id: str, child_id: str | None) -> None:
        held = child_id or parent_id
        if held not in self._named:
            self._named.add(held)
            log.warning(
                "sweeper: another transaction holds task %s, so the end or revival of %s reaches %s when "
                "that transaction has ended; find it in pg_stat_activity",
                *(held, parent_id, "it" if child_id else "its dependents"),
            )
