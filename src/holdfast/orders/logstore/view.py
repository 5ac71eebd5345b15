"""The orders in a RedisKV: a view of the log, written after it (keys: `view_keys`).

Promises: all keys of a batch are written in one transaction, so indexes and orders always agree. A view
that fell behind (Redis was down, or lost its data) is rebuilt from the store, in bounded chunks with each
batch, and is marked as incomplete meanwhile. Opening does not need Redis. Only keys that this view wrote
are deleted.
Never: fails a call whose change is in the log already; overwrites a view that is newer or belongs to
another store.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import msgspec

from holdfast.errors import HoldfastError, StoreUnavailable
from holdfast.metrics import Meter
from holdfast.orders import metrics as measured
from holdfast.orders.errors import StateBehind
from holdfast.orders.logstore.view_keys import (
    CHUNK,
    Entries,
    Keys,
    Meta,
    chunks,
    event_fields,
    merged,
    meta_json,
    reset_fields,
)
from holdfast.orders.model.book import Contents
from holdfast.orders.model.commands import Change
from holdfast.orders.model.order import Answered, FreezeState
from holdfast.primitives.kv import MemoryKV, RedisKV, Transaction

logger: Final = logging.getLogger("holdfast.orders")
RETRY_SECONDS: Final = 1.0
EVENTS_MAX: Final = 10_000
BATCHES_MAX: Final = 10
"""Chunks of a rebuild that are written with one batch of orders."""
WRONG_MAX: Final = 20
NOTHING: Final = Entries({}, {}, [], [])


class Lost(Exception):
    """The view in Redis is not the one that was written last."""


class Rebuild:
    """A view that is being rebuilt from one state of the store, plus later changes."""

    def __init__(self, contents: Contents) -> None:
        self.left = 0
        """How many old entries of the index are left: keys that may be stale."""
        self.wanted: set[str] = set()
        self._orders = iter(contents.orders)
        self._answered = iter(contents.answered)
        self.newer: set[str] = set()
        """Ids and keys that were written, or forgotten, since the rebuild started."""

    def piece(self, keys: Keys) -> Entries | None:
        """The next orders or answers; None at the end."""
        for orders in chunks(self._orders):
            return keys.entries((o for o in orders if o.client_order_id not in self.newer), ())
        for answers in chunks(self._answered):
            return keys.entries((), (a for a in answers if keys.answer(a) not in self.newer))
        return None


class View:
    """Used in one thread at a time (the group commit ensures it)."""

    def __init__(
        self,
        kv: RedisKV,
        *,
        prefix: str,
        timer: Callable[[], float],
        meter: Meter,
        events_max: int = EVENTS_MAX,
    ) -> None:
        self._kv = kv
        self._keys = Keys(prefix)
        self._timer = timer
        self._meter = meter
        self._events_max = events_max
        self._lineage = ""
        self._opened_at = 0
        self._freeze = FreezeState()
        self._listed: set[str] = set()
        """Sets that are in the index."""
        self._written: str | None = None
        """The last written meta value, which the next write must find unchanged."""
        self._is_checked = False
        """Whether the keys in Redis at opening were checked: written by this store, or absent."""
        self._is_behind = False
        self._try_at = 0.0
        self._rebuild: Rebuild | None = None
        self._refusal: StateBehind | None = None
        self.is_local = isinstance(kv._backend, MemoryKV)
        """Whether writes need no network."""

    def open(self, lineage: str, seq: int, contents: Contents, *, overwrite: bool = False) -> None:
        """Brings the view up to `seq`. Raises StateBehind when it is newer or belongs to another store.
        If Redis is down, the view is behind and its contents are checked before the first write."""
        begun = self._timer()
        self._lineage, self._opened_at, self._freeze = lineage, seq, contents.freeze
        self._is_checked = overwrite
        try:
            found = self._kv.get(self._keys.meta)
            self._check_ours(found)
            self._written = self._meta(seq)
            if found != self._written:
                self.rebuild(contents, seq)
            self._meter.gauge(measured.VIEW_BEHIND, 0.0)
        except StateBehind:
            raise
        except HoldfastError as error:
            self._fall_behind(error, begun)

    def check_admits(self) -> None:
        """Raises StateBehind when Redis was found to be newer than the directory: orders are missing
        here, so no new ones may be placed."""
        if self._refusal is not None:
            raise StateBehind(*self._refusal.args) from self._refusal

    def apply(
        self,
        changes: Sequence[Change],
        lines: Sequence[bytes],
        seq: int,
        contents: Callable[[], Contents],
    ) -> None:
        """Applies the log up to record `seq`; `lines` were just written. Never raises: the changes are
        durable already."""
        begun, was_behind = self._timer(), self._is_behind
        if self._refusal is not None or (self._is_behind and begun < self._try_at):
            return
        try:
            if self._rebuild is not None:
                self._follow(changes, lines, seq)
            elif self._is_behind:
                self._check_ours(self._kv.get(self._keys.meta))
                self._begin(contents(), seq)
            else:
                self._follow_or_begin(changes, lines, seq, contents)
            self._go_on(seq, BATCHES_MAX)
            if was_behind and not self._is_behind:
                logger.info("the view of the orders has caught up with record %d", seq)
        except StateBehind as error:
            self._refusal = error
            logger.error("[VIEW] the store refuses new orders: %s", error)  # noqa: TRY400
        except (HoldfastError, Lost) as error:
            self._fall_behind(error, begun)

    def rebuild(self, contents: Contents, seq: int) -> None:
        """Rebuilds all keys."""
        try:
            self._begin(contents, seq)
            while self._rebuild is not None:
                self._go_on(seq, BATCHES_MAX)
        except Lost as error:
            raise StoreUnavailable(f"{error}: another process writes to its keys") from None

    def forget(self, answers: Iterable[Answered]) -> None:
        """Removes answers that retention no longer covers. A failure leaves keys for the next rebuild."""
        begun = self._timer()
        try:
            for keys in chunks(self._keys.answer(done) for done in answers):
                if self._rebuild is not None:
                    self._rebuild.newer.update(keys)
                if not self._is_behind or self._rebuild is not None:
                    self._kv.delete(*keys)
        except HoldfastError as error:
            self._fall_behind(error, begun)

    def check(self, contents: Contents) -> list[str]:
        """Differences between the view and the store, as text."""
        if self._is_behind:
            return [
                "the view is behind: Redis could not be reached when it should have been written"
            ]
        entries = self._keys.entries(contents.orders, contents.answered)
        wanted: dict[str, str | set[str]] = dict(entries.values)
        wanted |= {key: set(ids) for key, ids in entries.members.items()}
        found = self._found(wanted.keys())
        missing = [f"{key} is missing" for key in wanted.keys() - found.keys()]
        extra = [f"{key} should not be there" for key in found.keys() - wanted.keys()]
        differ = [
            f"{key} differs" for key in wanted.keys() & found.keys() if wanted[key] != found[key]
        ]
        return sorted(missing + extra + differ)[:WRONG_MAX]

    # -- writing -------------------------------------------------------------------------------------

    def _follow_or_begin(
        self,
        changes: Sequence[Change],
        lines: Sequence[bytes],
        seq: int,
        contents: Callable[[], Contents],
    ) -> None:
        try:
            self._follow(changes, lines, seq)
        except Lost:
            logger.warning("the view of the orders was lost or changed: rebuilding it")
            self._begin(contents(), seq)

    def _follow(self, changes: Sequence[Change], lines: Sequence[bytes], seq: int) -> None:
        """One transaction. Raises Lost when the view was not as this store left it."""
        for change in changes:
            if change.freeze is not None:
                self._freeze = change.freeze
        orders, answered, known = merged(changes)
        if self._rebuild is not None:
            known = set()  # None of its keys may be there yet.
            self._rebuild.newer.update(order.client_order_id for order in orders)
            self._rebuild.newer.update(map(self._keys.answer, answered))
        expected, entries = self._written, self._keys.entries(orders, answered, known)
        with self._kv.transaction() as tx:
            before = tx.get(self._keys.meta)
            self._put(tx, entries, seq)
            if self._events_max:
                fields = event_fields(self._lineage, lines)
                tx.xadd(self._keys.events, fields, id=f"{seq}-0", maxlen=self._events_max)
        if before.value != expected:
            raise Lost("the view of the orders was lost or changed")

    def _begin(self, contents: Contents, seq: int) -> None:
        self._freeze = contents.freeze
        self._is_behind = True
        self._rebuild = Rebuild(contents)
        self._listed.clear()
        symbols = {self._keys.by_symbol(order.symbol) for order in contents.orders}
        with self._kv.transaction() as tx:
            for keys in chunks((self._keys.open, self._keys.events, *sorted(symbols))):
                tx.delete(*keys)
            if seq and self._events_max:
                tx.xadd(self._keys.events, reset_fields(self._lineage), id=f"{seq}-0")
            left = tx.llen(self._keys.index)
            self._put(tx, NOTHING, seq)
        self._rebuild.left = left.value

    def _go_on(self, seq: int, pieces: int) -> None:
        """Writes a few chunks of a rebuild, each in one transaction."""
        for _ in range(pieces):
            if self._rebuild is None:
                return
            entries = self._rebuild.piece(self._keys)
            if entries is None:
                self._end(seq)
                continue
            expected = self._written
            with self._kv.transaction() as tx:
                before = tx.get(self._keys.meta)
                self._put(tx, entries, seq)
            if before.value != expected:
                raise Lost("the view of the orders was lost or changed during its rebuild")

    def _end(self, seq: int) -> None:
        """Removes stale keys of an older view, one chunk at a time; then the view is complete."""
        rebuild = self._rebuild
        assert rebuild is not None
        if rebuild.left:
            count = min(rebuild.left, CHUNK)
            stale = set(self._kv.lrange(self._keys.index, 0, count - 1)) - rebuild.wanted
            with self._kv.transaction() as tx:
                if stale:
                    tx.delete(*sorted(stale))
                tx.ltrim(self._keys.index, count, -1)
            rebuild.left -= count
            return
        self._rebuild = None
        with self._kv.transaction() as tx:
            self._put(tx, NOTHING, seq)
        self._is_behind = False
        self._meter.gauge(measured.VIEW_BEHIND, 0.0)

    def _put(self, tx: Transaction, entries: Entries, seq: int) -> None:
        self._written = self._meta(seq)
        tx.set(self._keys.meta, self._written)
        for pairs in chunks(entries.values.items()):
            tx.mset(dict(pairs))
        for key, ids in entries.members.items():
            for names in chunks(ids):
                tx.sadd(key, *names)
        for names in chunks(entries.ended):
            tx.srem(self._keys.open, *names)
        sets = entries.members.keys() - self._listed
        for keys in chunks([*entries.new, *sorted(sets)]):
            tx.rpush(self._keys.index, *keys)
        self._listed |= sets
        if self._rebuild is not None:
            self._rebuild.wanted.update(entries.new, entries.members)

    def _meta(self, seq: int) -> str:
        meta = Meta(
            lineage=self._lineage,
            seq=seq,
            freeze=self._freeze,
            building=self._rebuild is not None,
        )
        return meta_json(meta)

    def _fall_behind(self, error: Exception, begun: float) -> None:
        now = self._timer()
        # A slow server must not delay every batch.
        self._try_at = now + max(RETRY_SECONDS, 10.0 * (now - begun))
        if not self._is_behind:
            logger.warning("the view of the orders is behind the log: %s", error)
        self._is_behind = True
        self._rebuild = None
        self._meter.gauge(measured.VIEW_BEHIND, 1.0)

    # -- reading -------------------------------------------------------------------------------------

    def _check_ours(self, found: str | None) -> None:
        """Raises StateBehind when Redis holds a view that this directory did not write. Checked once."""
        if self._is_checked:
            return
        if found is None:
            if self._has_orders():
                raise _refusal("Redis holds orders that no Holdfast store wrote")
        else:
            self._refuse_newer(found)
        self._is_checked = True

    def _refuse_newer(self, found: str) -> None:
        try:
            meta = msgspec.json.decode(found, type=Meta)
        except msgspec.DecodeError:
            raise _refusal("Redis holds an orders:meta that cannot be read") from None
        if meta.lineage != self._lineage:
            raise _refusal(f"Redis holds the orders of another state directory ({meta.lineage})")
        if meta.seq > self._opened_at:
            raise _refusal(
                f"Redis has record {meta.seq} and the state directory ended at {self._opened_at}"
            )

    def _has_orders(self) -> bool:
        cursor = 0
        while True:
            cursor, page = self._kv.scan(cursor, f"{self._keys.orders}*", 1000)
            if page or cursor == 0:
                return bool(page)

    def _found(self, wanted: Iterable[str]) -> dict[str, str | set[str]]:
        """The values in Redis, of the expected keys and of the keys that this view wrote."""
        found: dict[str, str | set[str]] = {}
        ours = {*wanted, *self._kv.lrange(self._keys.index, 0, -1)}
        plain = []
        for key in sorted(ours):
            if not self._keys.is_set(key):
                plain.append(key)
            elif members := self._kv.smembers(key):
                found[key] = members
        for keys in chunks(plain):
            values = self._kv.mget(keys)
            found |= {
                key: value for key, value in zip(keys, values, strict=True) if value is not None
            }
        return found


def _refusal(what: str) -> StateBehind:
    return StateBehind(
        f"{what}: it was not touched. Open the state directory that belongs to it; if the directory is "
        "right and Redis is not, open with overwrite_view=True"
    )
