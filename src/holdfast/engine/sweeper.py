"""Takes back what dead runners held, and forgets what nobody needs any more.

Promises: an expired lease becomes a queued task (or a dead letter) within about a second; finished tasks
and old events go when their retention is over, in small bites. Any number of sweepers may run: the store
decides who gets which row. Correctness never waits for a sweeper; only time does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from holdfast.clock import Clock
from holdfast.engine.loop import Loop
from holdfast.store.store import Store

SWEEP_SECONDS: Final = 1.0
COUNT_SECONDS: Final = 5.0
PRUNE_SECONDS: Final = 30.0
PRUNE_BITE: Final = 1_000
BITES_MAX: Final = 50
NODE_SECONDS: Final = 3_600.0


class Retention(msgspec.Struct, frozen=True):
    """How long things are kept, in seconds after their end."""

    done_seconds: float = 7 * 86_400.0
    dead_seconds: float = 90 * 86_400.0
    feed_seconds: float = 7 * 86_400.0


class Sweeper(Loop):
    name = "sweeper"

    def __init__(
        self, clock: Clock, store: Store, retention: Retention, on_expired: Callable[[], None]
    ) -> None:
        super().__init__(clock)
        self._store = store
        self._retention = retention
        self._on_expired = on_expired
        self._prune_at = 0.0
        self._count_at = 0.0
        self.expired = 0
        self.pruned = 0

    async def tick(self) -> float:
        while expired := await self._store.expire():
            self.expired += len(expired)
            self._on_expired()
            if len(expired) < 100:
                break
        now = self._store.now()
        if now >= self._count_at:
            await self._store.counters()
            self._count_at = now + COUNT_SECONDS
        if now >= self._prune_at:
            await self._prune(now)
            self._prune_at = now + PRUNE_SECONDS
        return SWEEP_SECONDS

    async def _prune(self, now: float) -> None:
        keep = self._retention
        for _ in range(BITES_MAX):
            gone = await self._store.prune(
                before=now - keep.done_seconds,
                dead_before=now - keep.dead_seconds,
                feed_before=now - keep.feed_seconds,
                limit=PRUNE_BITE,
            )
            self.pruned += gone
            if gone < PRUNE_BITE:
                break
        await self._store.execute("prune_limits", before=now - NODE_SECONDS, limit=PRUNE_BITE)
        await self._store.execute("prune_entries", now=now, limit=PRUNE_BITE)
        await self._store.execute("prune_nodes", before=now - NODE_SECONDS)
