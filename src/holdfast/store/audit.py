"""The audit of a store, for readers. Acts append to it in their own transactions (`scripts/audit.py`)."""

from __future__ import annotations

from typing import Final

from holdfast.core.audit import AuditHead, AuditRow, verify
from holdfast.store.scripts import audit as scripts
from holdfast.store.store import Store

VERIFY_PAGE: Final = 1_000


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

    async def verify(self) -> tuple[AuditHead, int | None]:
        """The head, and the number of the first row that is wrong or missing. Rows that are appended
        meanwhile are left for the next call, and so are rows that retention removes meanwhile."""
        head = await self.head()
        prev = await self._store.read(scripts.read_start)
        while prev.seq < head.seq:
            rows = await self.after(prev.seq, min(VERIFY_PAGE, head.seq - prev.seq))
            if not rows:
                break
            wrong = verify(rows, prev)
            if wrong is not None:
                return head, wrong
            prev = rows[-1].head
        return head, verify((), prev, head)
