"""The ledger on a store. Its scripts run in their own transaction or in the caller's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from holdfast.core import ledger as rules
from holdfast.core.ledger import Entry, EntryKey, EntryLease, EntryRequest, EntryVerdict, Outcome
from holdfast.store.port import ROW_WAIT_SECONDS, RowHeld
from holdfast.store.script import Guard, Script, guarded
from holdfast.store.scripts import ledger as scripts
from holdfast.store.store import Store

T = TypeVar("T")
WAIT_SECONDS: Final = 0.5
"""How long to wait for a transaction with the same key. Transactions of Holdfast are shorter, and a caller
that wants to wait longer asks again."""


class EntryStore:
    """The entries of the ledger, for callers and for steps of tasks. `tx`: a connection with an open
    transaction of the caller. `guard`: runs before, in the same transaction."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def begin(
        self, ask: EntryRequest, *, tx: object = None, guard: Guard | None = None
    ) -> EntryVerdict:
        try:
            return await self._write(
                lambda now: guarded(guard, scripts.begin(ask, now, in_tx=tx is not None)),
                tx=tx,
                # A step of a task has no other way to wait.
                wait_seconds=WAIT_SECONDS if ask.runner is None else ROW_WAIT_SECONDS,
            )
        except RowHeld:
            return rules.uncommitted(ask, self._store.now())

    async def end(
        self,
        lease: EntryLease,
        outcome: Outcome | None,
        *,
        tx: object = None,
        guard: Guard | None = None,
    ) -> None:
        await self._write(lambda now: guarded(guard, scripts.end(lease, outcome, now)), tx=tx)

    async def extend(self, lease: EntryLease, lease_seconds: float) -> None:
        await self._write(lambda now: scripts.extend(lease, lease_seconds, now))

    async def once(
        self, ask: EntryRequest, effect: Callable[[EntryLease], Script[object]]
    ) -> object:
        try:
            return await self._write(
                lambda now: scripts.once(ask, effect, now),
                repeatable=False,
                wait_seconds=WAIT_SECONDS,
            )
        except RowHeld:
            return rules.started(rules.uncommitted(ask, self._store.now()))

    async def get(self, entry_key: EntryKey) -> Entry | None:
        return await self._store.read(lambda: scripts.get(entry_key))

    async def unfinished(self, scope: str | None, limit: int) -> list[Entry]:
        now = self._store.now()
        return await self._store.read(lambda: scripts.unfinished(scope, limit, now))

    async def prune(self, limit: int) -> int:
        """Removes expired entries. Returns how many."""
        return await self._store.upkeep.prune_entries(now=self._store.now(), limit=limit)

    async def _write(
        self,
        make: Callable[[float], Script[T]],
        *,
        tx: object = None,
        repeatable: bool = True,
        wait_seconds: float = ROW_WAIT_SECONDS,
    ) -> T:
        """Runs a script that writes. An entry stores its owner and fence, so a second run recognizes the
        entry of the first one."""
        if tx is not None:
            return await self._store.run_in_tx(tx, lambda _dialect, _ids, now: make(now))
        return await self._store.run(
            lambda _dialect, _ids, now: make(now),
            small=True,
            repeatable=repeatable,
            wait_seconds=wait_seconds,
        )
