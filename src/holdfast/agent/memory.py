"""A journal in memory, for simulated hosts.

Promises: it outlives the agent that wrote it, as a disk does. A power failure loses the records that were
appended without a sync.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core.fleet.agents.journal import Record, TokenLog


class MemoryJournal:
    """The disk of one simulated host."""

    def __init__(self, journal_id: str) -> None:
        self.journal_id = journal_id
        self._records: dict[int, list[Record]] = {}
        self._synced: dict[int, int] = {}

    async def load(self) -> list[TokenLog]:
        return [
            TokenLog(token=token, records=tuple(records))
            for token, records in sorted(self._records.items())
        ]

    async def append(self, token: int, *records: Record, sync: bool = True) -> None:
        kept = self._records.setdefault(token, [])
        kept += records
        if sync:
            self._synced[token] = len(kept)

    async def forget(self, tokens: Sequence[int]) -> None:
        newest = max(self._records, default=0)
        for token in tokens:
            if token != newest:
                self._records.pop(token, None)
                self._synced.pop(token, None)

    def lose_power(self) -> None:
        """Drops what was not synced."""
        for token, records in [*self._records.items()]:
            del records[self._synced.get(token, 0) :]
            if not records:
                del self._records[token]
