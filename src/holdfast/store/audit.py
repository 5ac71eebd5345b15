"""The audit of a store, for readers. Acts append to it in their own transactions (`scripts/audit.py`)."""

from __future__ import annotations

from typing import Final, NamedTuple

from holdfast.core.audit import AuditHead, AuditRow, verify
from holdfast.store.scripts import audit as scripts
from holdfast.store.store import Store

VERIFY_PAGE: Final = 1_000


class AuditCheck(NamedTuple):
    """What a verification found."""

    start: AuditHead
    """The last row that retention removed; number 0 before the first."""
    head: AuditHead
    wrong: int | None
    """The number of the first row that is wrong or missing."""

    @property
    def rows(self) -> int:
        return max(0, self.head.seq - self.start.seq)


class AuditStore:
    """Reads and verifies the audit."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def head(self) -> AuditHead:
        return await self._store.read(scripts.read_head)

    async def before(self, seq: int, limit: int) -> list[AuditRow]:
        """Rows with a number below `seq`, the latest first."""
        return await self._store.read(lambda: scripts.read_before(seq, limit))

    async def after(self, seq: int, limit: int) -> list[AuditRow]:
        """Rows with a number above `seq`, the oldest first."""
        return await self._store.read(lambda: scripts.read_after(seq, limit))

    async def verify(self) -> AuditCheck:
        """Verifies the chain. Rows that are appended meanwhile are left for the next call, and so are rows
        that retention removes meanwhile."""
        head = await self.head()
        start = prev = await self._start()
        while prev.seq < head.seq:
            rows = await self.after(prev.seq, min(VERIFY_PAGE, head.seq - prev.seq))
            wrong = verify(rows, prev) if rows else prev.seq + 1
            if wrong is None:
                prev = rows[-1].head
                continue
            start = await self._start()
            if start.seq <= prev.seq:
                return AuditCheck(start, head, wrong)
            prev = start  # retention removed rows between the two reads
        is_whole = prev == head or prev.seq > head.seq
        return AuditCheck(start, head, None if is_whole else head.seq)

    async def _start(self) -> AuditHead:
        return await self._store.read(scripts.read_start)
