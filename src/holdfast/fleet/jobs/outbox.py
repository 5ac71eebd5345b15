"""The outbox: what has to be done after a commit, written by the transaction that makes it due.

Promises: an entry is claimed by one process at a time, for `CLAIM_SECONDS`. An entry whose claimer died, or
whose message was lost, is due again when its claim has ended: it is announced until it is done. An entry that
fails is tried again later and later, and delays no other entry.
Never: does the work; who claims an entry does it (`holdfast.fleet.pipeline`, webhooks).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from holdfast.core.fleet.model import SLOT, OutboxEntry, OutboxKind
from holdfast.core.gate import NODE
from holdfast.fleet.jobs.rows import own
from holdfast.fleet.rows import OUTBOX
from holdfast.store.script import Script, call, call_rows
from holdfast.store.store import Store

CLAIM_SECONDS: Final = 30.0
"""How long a claimed entry is left alone. Then it is announced again."""
BATCH: Final = 100
"""Entries that one claim takes."""
RETRY_SECONDS_MAX: Final = 300.0
ERROR_CHARS_MAX: Final = 500
OVERDUE_SECONDS: Final = 30.0
"""An execution that no process has taken for this long is announced again."""
OVERDUE_MAX: Final = 200
DRIVE: Final = "drive:"
"""How the lease of a host that a process serves begins. The id of the host follows."""


def announce(
    kind: OutboxKind,
    subjects: Sequence[str],
    now: float,
    *,
    payload_json: str = "{}",
    due_at: float | None = None,
) -> Script[None]:
    """Adds an entry for each subject, in the transaction of what it announces."""
    at = now if due_at is None else due_at
    rows: list[tuple[Any, ...]] = [(kind.value, subject, payload_json, at) for subject in subjects]
    if rows:
        yield call_rows(own("add_outbox"), rows, now=now)


class Outbox:
    """The entries, as those see them who do what they announce."""

    def __init__(self, store: Store, owner: str) -> None:
        self._store = store
        self._owner = owner

    async def claim(self, kind: OutboxKind, limit: int = BATCH) -> list[OutboxEntry]:
        """Takes entries that are due, those that waited longest first."""

        def script(now: float) -> Script[list[OutboxEntry]]:
            rows = yield call(
                own("claim_outbox"),
                kind=kind.value,
                owner=self._owner,
                now=now,
                until=now + CLAIM_SECONDS,
                limit=limit,
            )
            return sorted(OUTBOX.read_all(rows), key=lambda entry: entry.id)

        return await self._store.run(lambda _dialect, _ids, now: script(now))

    async def done(self, entries: Sequence[OutboxEntry]) -> None:
        """Ends entries of this process's claims."""
        rows: list[tuple[Any, ...]] = [(entry.id, entry.attempts) for entry in entries]

        def script(now: float) -> Script[None]:
            yield call_rows(own("end_outbox"), rows, now=now)

        if rows:
            await self._store.run(lambda _dialect, _ids, now: script(now), repeatable=True)

    async def delay(self, entry: OutboxEntry, error: str) -> None:
        """Leaves an entry that failed for later: twice as long after each attempt."""
        seconds = min(2.0 ** min(entry.attempts, 20), RETRY_SECONDS_MAX)

        def script(now: float) -> Script[None]:
            yield call(
                own("delay_outbox"),
                id=entry.id,
                attempts=entry.attempts,
                due_at=now + seconds,
                error=error[:ERROR_CHARS_MAX],
            )

        await self._store.run(lambda _dialect, _ids, now: script(now), repeatable=True)

    async def next_due(self, kind: OutboxKind) -> float | None:
        """When the first open entry is due."""

        def script() -> Script[float | None]:
            rows = yield call(own("next_outbox"), kind=kind.value)
            return rows[0][0] if rows else None

        return await self._store.read(script)


def overdue_pushed(drivers: Sequence[str], now: float) -> Script[list[str]]:
    """Executions that no process brings to their hosts, though they are due, and those without a process,
    though they have the slots of their hosts."""
    waiting = yield call(
        own("overdue_pushed"),
        drivers=list(drivers),
        prefix=NODE,
        since=now - OVERDUE_SECONDS,
        limit=OVERDUE_MAX,
    )
    left = yield call(
        own("left_slots"), drivers=list(drivers), slot=SLOT, drive=DRIVE, now=now, limit=OVERDUE_MAX
    )
    return list(dict.fromkeys(row[0] for row in (*waiting, *left)))
