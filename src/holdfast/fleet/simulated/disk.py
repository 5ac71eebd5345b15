"""The journal of a simulated agent, on a disk that exists in memory.

Promises: records survive a kill of the agent. A loss of power takes those that were not synced.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from holdfast.core.fleet.agents.journal import Record, TokenLog

Before = Callable[[int, tuple[Record, ...]], Awaitable[None]]


async def _nothing(_token: int, _records: tuple[Record, ...]) -> None:
    return


class MemoryJournal:
    """See `holdfast.agent.ports.Journal`."""

    def __init__(self, journal_id: str) -> None:
        self.journal_id = journal_id
        self._records: dict[int, list[Record]] = {}
        self._synced: dict[int, int] = {}
        """How many records of each token are on the disk."""
        self.before_append: Before = _nothing
        """Called before records are written."""
        self.after_append: Before = _nothing

    async def load(self) -> list[TokenLog]:
        return [
            TokenLog(token=token, records=tuple(records))
            for token, records in sorted(self._records.items())
        ]

    async def append(self, token: int, *records: Record, sync: bool = True) -> None:
        await self.before_append(token, records)
        known = self._records.setdefault(token, [])
        known += records
        if sync:
            self._synced[token] = len(known)
        await self.after_append(token, records)

    async def forget(self, tokens: Sequence[int]) -> None:
        newest = max(self._records, default=0)
        for token in tokens:
            if token != newest:
                self._records.pop(token, None)
                self._synced.pop(token, None)

    def lose_power(self) -> None:
        """Only what was synced stays."""
        self._records = {
            token: records[:synced]
            for token, records in self._records.items()
            if (synced := self._synced.get(token, 0))
        }
