"""The durable order store: a log that is synced before the answer, snapshots, and a view in a RedisKV.

Promises: an answered call survives kill -9 and power loss. A key takes effect once, before and after a
restart. The indexes of the view change together with the orders and can be rebuilt from the log.
Never: two processes on one directory, an answer before the sync, an older directory over a newer Redis.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final, Self, TypeVar

from holdfast.clock import SystemClock
from holdfast.core.check import check_flag
from holdfast.errors import BadConfig, HoldfastError, IdempotencyConflict, NotRunning
from holdfast.metrics import Meter, NullMeter
from holdfast.orders import metrics as measured
from holdfast.orders.errors import StoreFailed
from holdfast.orders.logstore.commit import Batch, GroupCommit
from holdfast.orders.logstore.disk import Disk
from holdfast.orders.logstore.journal import Journal
from holdfast.orders.logstore.log import record_line
from holdfast.orders.logstore.view import EVENTS_MAX, View
from holdfast.orders.model.book import RETAIN_MAX, RETAIN_SECONDS, Contents, MemoryBook, Undo
from holdfast.orders.model.commands import PLACE, Change, Command, Moment, Verdict
from holdfast.orders.model.options import check_options, check_path
from holdfast.orders.model.order import Answered, FreezeState, Order
from holdfast.orders.model.rules import check_reference, check_symbol
from holdfast.orders.model.store import AsyncOrderStore, BookOrderStore
from holdfast.primitives.kv import RedisKV

T = TypeVar("T")
logger: Final = logging.getLogger("holdfast.orders")
QUICK_SECONDS: Final = 0.001
"""A disk whose average sync takes longer must not be written from an event loop."""
PLACING: Final = (PLACE, "import")
"""Commands that are refused while the directory is older than its Redis view."""
SNAPSHOT_LOG_BYTES: Final = 64 * 1024 * 1024


class DurableOrderStore(BookOrderStore):
    """See `store.OrderStore`; `aio` has the same calls for an event loop.

    Opening reads the durable state. `namespace` separates the ids of stores that trade at one exchange.
    `overwrite_view`: overwrite the view in Redis, even when it is newer. `events_max`: how many of the
    latest records the stream orders:events holds; 0: no stream. A snapshot is saved automatically when
    the log since the last one exceeds `snapshot_log_bytes`."""

    def __init__(
        self,
        redis_client: RedisKV,
        snapshot_dir: Path | str,
        clock: Callable[[], float] | None = None,
        *,
        namespace: str = "",
        key_prefix: str = "",
        overwrite_view: bool = False,
        retain_seconds: float = RETAIN_SECONDS,
        retain_max: int = RETAIN_MAX,
        snapshot_log_bytes: int = SNAPSHOT_LOG_BYTES,
        events_max: int = EVENTS_MAX,
        meter: Meter | None = None,
        disk: Disk | None = None,
        timer: Callable[[], float] | None = None,
    ) -> None:
        folder = check_path("snapshot_dir", snapshot_dir, wrong=BadConfig)
        check_options(namespace, retain_seconds, retain_max, snapshot_log_bytes, events_max)
        check_flag("overwrite_view", overwrite_view)
        self._clock = clock or SystemClock().now
        self._namespace = namespace
        self._meter = meter or NullMeter()
        self._is_measured = meter is not None
        self._snapshot_log_bytes = snapshot_log_bytes
        self._lock = threading.Lock()
        self._snapshots = threading.Lock()
        self._snapshot_thread: threading.Thread | None = None
        self._process = os.getpid()
        self._is_open = True
        self._is_midway = False
        """Set while book and batch change together. If it is still set later, an interrupt came between
        them."""
        self._breakage: StoreFailed | None = None
        self._book = MemoryBook(retain_seconds=retain_seconds, retain_max=retain_max)
        self._journal = Journal(
            folder,
            disk=disk or Disk(),
            timer=timer or SystemClock().monotonic,
            meter=self._meter,
        )
        self._view = View(
            redis_client,
            prefix=key_prefix,
            timer=timer or SystemClock().monotonic,
            meter=self._meter,
            events_max=events_max,
        )
        self._commit = GroupCommit(
            self._lock,
            write=self._write,
            failed=self._take_back,
            broken=self._break,
            after=self._after_batch,
            is_quick=self._is_quick,
        )
        try:
            self._journal.open(self._book)
            forgotten = self._book.forget(self._clock())
            self._seq = self._journal.seq
            self._view.open(
                self._journal.lineage, self._seq, self._book.contents(), overwrite=overwrite_view
            )
            self._view.forget(forgotten)
        except BaseException:
            self._journal.close()
            raise
        self.aio = AsyncOrders(self)

    # -- commands ------------------------------------------------------------------------------------

    def run(self, command: Command[T]) -> T:
        verdict, batch = self.decide(command)
        self._commit.wait(batch)
        return verdict.answer

    def until_durable(self, batch: Batch) -> asyncio.Future[None] | None:
        """The future to await before `batch.answer()`; None when the batch is durable."""
        return self._commit.future(batch)

    def decide(self, command: Command[T]) -> tuple[Verdict[T], Batch | None]:
        """The answer, and the batch that must be durable before it is returned."""
        try:
            with self._lock:
                self._check_usable()
                moment = Moment(
                    self._clock(), self._namespace, self._journal.lineage, self._seq + 1
                )
                verdict = command.judge(self._book, moment)
                if verdict.change is None:
                    batch = self._commit.newest()
                else:
                    if command.operation in PLACING:
                        self._view.check_admits()
                    batch = self._take(verdict.change)
        except HoldfastError as error:
            self._count_refusal(command, error)
            raise
        self._count(command, verdict, batch)
        return verdict, batch

    def _take(self, change: Change) -> Batch:
        """Adds the next record. Everything that can fail comes first. An interrupt after that leaves
        `_is_midway` set, and the store accepts and shows nothing more: its memory may differ from what it
        will write."""
        self._journal.check_writable()
        number = self._seq + 1
        line = record_line(number, change, self._commit.first(number))
        self._is_midway = True
        batch = self._commit.add(number, line, self._book.apply(change))
        self._seq = number
        self._is_midway = False
        return batch

    def now(self) -> float:
        return self._clock()

    def look(self, at: Callable[[MemoryBook], T]) -> T:
        found, batch = self.peek(at)
        self._commit.wait(batch)
        return found

    def peek(self, at: Callable[[MemoryBook], T]) -> tuple[T, Batch | None]:
        """Reads the book; also returns the batch that must be durable before the result may be shown."""
        with self._lock:
            self._check_usable()
            return at(self._book), self._commit.newest()

    async def look_async(self, at: Callable[[MemoryBook], T]) -> T:
        found, batch = self.peek(at)
        if batch is not None and (done := self.until_durable(batch)) is not None:
            await done
            batch.answer()
        return found

    # -- snapshots -----------------------------------------------------------------------------------

    def save_snapshot(self) -> None:
        """Writes the durable state into one file, and removes the log before the older snapshot."""
        with self._snapshots:
            with self._lock:
                self._check_usable()
                forgotten = self._book.forget(self._clock())
                contents, seq = self._contents(self._commit.unsynced())
            path = self._journal.save(contents, seq, self._clock())
            self._commit.alone(lambda: self._end_snapshot(forgotten))
        logger.info("[SNAPSHOT] Saved %d orders to %s", len(contents.orders), path)

    def recover_from_snapshot(self) -> int:
        """Reads the directory again, checks that it equals the state of this store, and rebuilds the view
        where it differs. Opening has recovered already; this verifies it. Returns the number of orders."""
        with self._snapshots:
            self._commit.alone(self._check_recovery)
            with self._lock:
                count = len(self._book)
        logger.info("[RECOVER] Loaded %d orders from snapshot", count)
        return count

    def _end_snapshot(self, forgotten: list[Answered]) -> None:
        self._journal.rotate(self._clock())
        self._view.forget(forgotten)

    def _check_recovery(self) -> None:
        with self._lock:
            self._check_usable()
            contents, seq = self._contents(self._commit.unsynced())
        self._journal.check_same(contents)
        if self._view.check(contents):
            self._view.rebuild(contents, seq)

    def _contents(self, unsynced: list[Undo]) -> tuple[Contents, int]:
        """The durable part of the state, and its last record."""
        return self._book.contents(unsynced), self._seq - len(unsynced)

    def verify(self) -> list[str]:
        """Errors in the indexes of the view, as text; empty when there are none."""
        wrong: list[str] = []

        def compare() -> None:
            with self._lock:
                self._check_usable()
                contents, _ = self._contents(self._commit.unsynced())
            wrong.extend(self._view.check(contents))

        self._commit.alone(compare)
        return wrong

    def close(self) -> None:
        """Waits for writes in progress. Answered calls are durable without closing."""
        with self._lock:
            if not self._is_open:
                return
            self._is_open = False
            batch = self._commit.newest()
            thread = self._snapshot_thread
        try:
            self._commit.wait(batch)
        except HoldfastError:
            logger.warning("the last writes were not made durable; their callers got an error")
        if thread is not None:
            thread.join()
        self._commit.close()
        self._commit.alone(self._journal.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- a batch on its way --------------------------------------------------------------------------

    def _write(self, batch: Batch) -> None:
        """Writes the log, then the view. Only the log can fail a call: a change in the log has happened,
        and a view that cannot be reached is updated later."""
        self._journal.append(batch.first, batch.lines)
        changes = [undo.change for undo in batch.undos]
        self._view.apply(changes, batch.lines, self._journal.seq, self._contents_while_writing)

    def _is_quick(self) -> bool:
        return self._view.is_local and self._journal.sync_seconds < QUICK_SECONDS

    def _contents_while_writing(self) -> Contents:
        with self._lock:
            self._check_whole()
            return self._book.contents(self._commit.unsynced(and_flushing=False))

    def _take_back(self, undos: list[Undo], error: HoldfastError) -> None:
        if not self._is_midway:
            self._is_midway = True
            self._book.undo(undos)
            self._seq -= len(undos)
            self._is_midway = False
        if isinstance(error, StoreFailed):
            self._journal.fail(error)

    def _break(self, error: StoreFailed) -> None:
        self._breakage = error
        self._journal.fail(error)

    def _after_batch(self) -> None:
        self._journal.measure_age(self._clock())
        if self._journal.bytes_since_snapshot < self._snapshot_log_bytes:
            return
        with self._lock:
            if self._snapshot_thread is not None or not self._is_open:
                return
            self._snapshot_thread = threading.Thread(
                target=self._save_by_itself, name="holdfast-orders-snapshot", daemon=True
            )
            self._snapshot_thread.start()

    def _save_by_itself(self) -> None:
        try:
            self.save_snapshot()
        except NotRunning:
            logger.info("no snapshot was saved: the store was closed")
        except HoldfastError:
            self._meter.count(measured.SNAPSHOT_FAILURES)
            logger.exception("a snapshot could not be saved; the log goes on")
        finally:
            self._snapshot_thread = None

    def _check_usable(self) -> None:
        if not self._is_open:
            raise NotRunning("the order store was closed: open a new one")
        if os.getpid() != self._process:
            raise NotRunning(
                "the order store belongs to the process that opened it, not to its child"
            )
        self._check_whole()

    def _check_whole(self) -> None:
        """Called under the lock. After an interrupt in the middle of a change, memory and disk may
        differ."""
        if self._is_midway:
            self._break(StoreFailed("an interrupt stopped a call: open the store again"))
        if self._breakage is not None:
            raise StoreFailed(*self._breakage.args) from self._breakage

    # -- logs and metrics
    # ----------------------------------------------------------------------------

    def _count(self, command: Command[T], verdict: Verdict[T], batch: Batch | None) -> None:
        if self._is_measured:
            self._meter.count(measured.COMMANDS, operation=command.operation, outcome="ok")
        if verdict.note:
            self._meter.count(measured.LATE_FILLS)
            logger.info("[FILL] %s", verdict.note)
        if command.idem_key is None:
            return
        outcome = "miss"
        if verdict.replayed:
            outcome = "hit" if batch is None else "in_flight"
            logger.info(
                "[IDEM HIT] %s key=%s → cached result", _VERBS[command.operation], command.idem_key
            )
        if self._is_measured:
            self._meter.count(measured.IDEMPOTENCY, operation=command.operation, outcome=outcome)

    def _count_refusal(self, command: Command[T], error: HoldfastError) -> None:
        self._meter.count(measured.COMMANDS, operation=command.operation, outcome=error.code)
        if isinstance(error, IdempotencyConflict):
            self._meter.count(measured.IDEMPOTENCY, operation=command.operation, outcome="conflict")


_VERBS: Final = {
    "place": "place_order",
    "state": "update_order_state",
    "fill": "update_fill",
    "cancel-all": "cancel_all_open",
}


class AsyncOrders(AsyncOrderStore):
    """The calls of a durable store on an event loop: see `store.AsyncOrderStore`. Cancelling a call does
    not undo its request: repeat it with the same key."""

    def __init__(self, store: DurableOrderStore) -> None:
        self._store = store

    async def run(self, command: Command[T]) -> T:
        verdict, batch = self._store.decide(command)
        if batch is not None and (done := self._store.until_durable(batch)) is not None:
            await done
            batch.answer()
        return verdict.answer

    async def get(self, client_order_id: str) -> Order | None:
        name = check_reference(client_order_id)
        return await self._store.look_async(lambda book: book.order(name))

    async def orders(self) -> list[Order]:
        return await self._store.look_async(MemoryBook.orders)

    async def open_orders(self, symbol: str | None = None) -> list[Order]:
        if symbol is None:
            return await self._store.look_async(MemoryBook.open)
        return [order for order in await self.by_symbol(symbol) if order.is_open]

    async def by_symbol(self, symbol: str) -> list[Order]:
        name = check_symbol(symbol)
        return await self._store.look_async(lambda book: book.by_symbol(name))

    async def freeze_state(self) -> FreezeState:
        return await self._store.look_async(lambda book: book.freeze)
