"""Removes rows whose retention has ended, in rounds. Part of the sweeper.

Promises: small batches, and a bound for each round. A table that fails does not block the others. While the
counters stay the same and a round finds nothing, the rounds back off. Never: removes a row before its time.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

import msgspec

from holdfast.core.retention import HubRetention
from holdfast.engine.loop import Loop
from holdfast.store.store import Store

PRUNE_SECONDS: Final = 60.0
PRUNE_SECONDS_MAX: Final = 300.0
"""While the counters stay the same and a round finds nothing, the next one comes later: after at most this
time, and at most a tenth of the shortest retention."""
FIRST_PRUNE_SECONDS: Final = 5.0
"""A process that starts prunes after this time. A round has some twenty statements, which the database plans
for the first time then: they must not delay the first tasks."""
ROUND_BATCHES_MAX: Final = 50
LIMIT_SECONDS: Final = 3_600.0
"""Limits, and turns of lanes, that no claim has used for this long are pruned."""
MARK_SECONDS: Final = 3_600.0
"""Retention of marks, which prove that a transaction was committed. No caller waits that long for the
proof."""
TYPE_SECONDS: Final = 30 * 86_400.0
"""A type that no node, task or schedule has used for this long is pruned."""


class Retention(msgspec.Struct, frozen=True):
    """How long rows are kept, in seconds after their end."""

    done_seconds: float = 7 * 86_400.0
    dead_seconds: float = 90 * 86_400.0
    feed_seconds: float = 7 * 86_400.0
    conflict_seconds: float = 90 * 86_400.0
    """Of conflicts that were settled."""
    hub: HubRetention = HubRetention()

    @property
    def shortest(self) -> float:
        """The shortest of these times."""
        own = (self.done_seconds, self.dead_seconds, self.feed_seconds, self.conflict_seconds)
        beside: tuple[float | None, ...] = msgspec.structs.astuple(self.hub)
        return min(*own, *(seconds for seconds in beside if seconds is not None))


class Pruning:
    """The rounds of one process."""

    def __init__(self, loop: Loop, store: Store, retention: Retention, *, batch: int) -> None:
        """`batch`: the rows of one transaction."""
        self._loop = loop
        self._store = store
        self._retention = retention
        self._batch = batch
        self._seconds = PRUNE_SECONDS
        self._seconds_max = max(PRUNE_SECONDS, min(PRUNE_SECONDS_MAX, retention.shortest / 10))
        self.next_at = 0.0
        """When the next round is due."""

    def soon(self, now: float) -> None:
        """Tasks have ended. Types may have a short retention of their own, so these may have to go soon."""
        self._seconds = PRUNE_SECONDS
        self.next_at = min(self.next_at, now + PRUNE_SECONDS)

    async def round(self, now: float) -> None:
        """One round, if it is due. When rows end faster than it prunes them, the next one is due at once."""
        if now >= self.next_at:
            self.next_at = now if await self._round(now) else now + self._seconds

    async def _round(self, now: float) -> bool:
        """Returns whether there is more to prune."""
        keep = self._retention

        async def tasks() -> int:
            return await self._store.prune(
                before=now - keep.done_seconds,
                dead_before=now - keep.dead_seconds,
                feed_before=now - keep.feed_seconds,
                conflicts_before=now - keep.conflict_seconds,
                keep=keep.hub,
                limit=self._batch,
            )

        async def entries() -> int:
            return await self._store.upkeep.prune_entries(now=now, limit=self._batch)

        async def limits() -> int:
            before = now - LIMIT_SECONDS
            limits = await self._store.upkeep.prune_limits(before=before, limit=self._batch)
            return limits + await self._store.upkeep.prune_turns(before=before, limit=self._batch)

        async def counters() -> int:
            return await self._store.upkeep.prune_counters(limit=self._batch)

        async def marks() -> int:
            before = now - MARK_SECONDS
            return await self._store.upkeep.prune_marks(before=before, limit=self._batch)

        async def types() -> int:
            await self._store.upkeep.prune_types(before=now - TYPE_SECONDS)
            return 0

        parts = (tasks, entries, limits, counters, marks, types)
        pruned = [
            await self._loop.guard(f"pruning {part.__name__}", self._batches(part))
            for part in parts
        ]
        # A part that has failed is tried again as soon as one that has found something.
        longer = min(self._seconds * 2.0, self._seconds_max)
        self._seconds = longer if pruned == [_NOTHING] * len(parts) else PRUNE_SECONDS
        return any(found is not None and found.more for found in pruned)

    async def _batches(self, batch: Callable[[], Awaitable[int]]) -> _Pruned:
        """Prunes until a batch is not full, at most `ROUND_BATCHES_MAX` batches."""
        rows = 0
        for _ in range(ROUND_BATCHES_MAX):
            gone = await batch()
            rows += gone
            if gone < self._batch:
                return _Pruned(rows, False)
        return _Pruned(rows, True)


class _Pruned(NamedTuple):
    """What one part of a round has pruned, and whether there may be more."""

    rows: int
    more: bool


_NOTHING: Final = _Pruned(0, False)
