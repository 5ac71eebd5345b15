"""The orders as others read them from a RedisKV: a view of the log, written after it.

    orders:<client_order_id>       the order as JSON
    orders:open                    the ids that are open
    orders:by_symbol:<symbol>      the ids of a symbol
    idem:<operation>:<key>         the remembered answer as JSON (of a placement: the order's id)
    orders:meta                    whose view this is, up to which record, and the freeze epoch

Promises: all keys of a batch are written in one transaction, so no index is ever out of step with its
orders; a view that fell behind (Redis was gone, or lost its data) is made anew from the store. Never: a
failure of a call whose change is in the log already; a view of a newer or another store overwritten.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Final, TypeVar

import msgspec

from holdfast.errors import BadConfig, HoldfastError, StateBehind
from holdfast.orders import store_metrics as measured
from holdfast.orders.book import Cut
from holdfast.orders.commands import PLACE, Change
from holdfast.orders.order import Answered, FreezeState, Order, order_json
from holdfast.primitives.kv import MemoryKV, RedisKV, Transaction
from holdfast.primitives.metrics import Meter

T = TypeVar("T")
logger: Final = logging.getLogger("holdfast.orders")
PREFIX: Final = re.compile(r"[A-Za-z0-9:._-]{0,64}")
RETRY_SECONDS: Final = 1.0
CHUNK: Final = 500
WRONG_MAX: Final = 20
_encode: Final = msgspec.json.Encoder(order="sorted").encode


class Meta(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    lineage: str
    seq: int
    freeze: FreezeState


class View:
    """One thread at a time (the group commit sees to it)."""

    def __init__(
        self, kv: RedisKV, *, prefix: str, timer: Callable[[], float], meter: Meter
    ) -> None:
        if PREFIX.fullmatch(prefix) is None:
            raise BadConfig(f"the key prefix is {prefix!r}: use up to 64 letters, digits and :._-")
        self._kv = kv
        self._prefix = prefix
        self._timer = timer
        self._meter = meter
        self._orders = f"{prefix}orders:"
        self._idem = f"{prefix}idem:"
        self._lineage = ""
        self._freeze = FreezeState()
        self._written: str | None = None
        """The meta that we wrote last: what must be found when writing the next one."""
        self._is_behind = False
        self._try_at = 0.0
        self.is_local = isinstance(kv._backend, MemoryKV)
        """Whether writing it never waits for a network."""

    def open(self, lineage: str, seq: int, cut: Cut, *, overwrite: bool = False) -> None:
        """Brings the view up to `seq`. StateBehind when it is newer, or somebody else's."""
        self._lineage = lineage
        self._freeze = cut.freeze
        found = self._kv.get(f"{self._orders}meta")
        if not overwrite:
            self._refuse_newer(found, lineage, seq)
        self._written = self._meta(seq)
        if found != self._written:
            self.rebuild(cut, seq)
        self._meter.gauge(measured.VIEW_BEHIND, 0.0)

    def apply(self, changes: Sequence[Change], seq: int, cut: Callable[[], Cut]) -> None:
        """Follows the log. Never raises: the changes have happened, whatever the view says."""
        begun = self._timer()
        if self._is_behind and begun < self._try_at:
            return
        try:
            if self._is_behind:
                self.rebuild(cut(), seq)
                logger.info("the view of the orders has caught up with record %d", seq)
            elif not self._follow(changes, seq):
                logger.warning("the view of the orders was lost or changed: it is made anew")
                self.rebuild(cut(), seq)
        except HoldfastError as error:
            self._fall_behind(error, begun)

    def rebuild(self, cut: Cut, seq: int) -> None:
        """All keys anew, in one transaction."""
        self._freeze = cut.freeze
        old = self._keys()
        with self._kv.transaction() as tx:
            for keys in _chunks(old):
                tx.delete(*keys)
            self._put(tx, cut.orders, cut.answered, seq)
        self._is_behind = False
        self._meter.gauge(measured.VIEW_BEHIND, 0.0)

    def forget(self, answers: Iterable[Answered]) -> None:
        """Removes answers that retention no longer covers. What is left over by a failure goes with the
        next rebuild."""
        begun = self._timer()
        try:
            if not self._is_behind:
                for keys in _chunks(self._answer_key(done) for done in answers):
                    self._kv.delete(*keys)
        except HoldfastError as error:
            self._fall_behind(error, begun)

    def check(self, cut: Cut) -> list[str]:
        """Where the view differs from what it should be, in words."""
        if self._is_behind:
            return [
                "the view is behind: Redis could not be reached when it should have been written"
            ]
        values, members = self._entries(cut.orders, cut.answered)
        wanted: dict[str, str | set[str]] = dict(values)
        wanted |= {key: set(ids) for key, ids in members.items() if ids}
        found = self._everything()
        found.pop(f"{self._orders}meta", None)
        missing = [f"{key} is missing" for key in wanted.keys() - found.keys()]
        extra = [f"{key} should not be there" for key in found.keys() - wanted.keys()]
        differ = [
            f"{key} differs" for key in wanted.keys() & found.keys() if wanted[key] != found[key]
        ]
        return sorted(missing + extra + differ)[:WRONG_MAX]

    # -- writing -------------------------------------------------------------------------------------

    def _follow(self, changes: Sequence[Change], seq: int) -> bool:
        """One transaction; False when the view was not as we left it."""
        orders: dict[str, Order] = {}
        answered = []
        for change in changes:
            for order in change.orders:
                orders[order.client_order_id] = order
            if change.answered is not None:
                answered.append(change.answered)
            if change.freeze is not None:
                self._freeze = change.freeze
        expected = self._written
        with self._kv.transaction() as tx:
            before = tx.get(f"{self._orders}meta")
            self._put(tx, list(orders.values()), answered, seq)
        return before.value == expected

    def _put(
        self, tx: Transaction, orders: Sequence[Order], answered: Sequence[Answered], seq: int
    ) -> None:
        values, members = self._entries(orders, answered)
        self._written = values[f"{self._orders}meta"] = self._meta(seq)
        for pairs in _chunks(values.items()):
            tx.mset(dict(pairs))
        for key, ids in members.items():
            for names in _chunks(ids):
                tx.sadd(key, *names)
        for names in _chunks(order.client_order_id for order in orders if not order.is_open):
            tx.srem(f"{self._orders}open", *names)

    def _entries(
        self, orders: Sequence[Order], answered: Sequence[Answered]
    ) -> tuple[dict[str, str], dict[str, list[str]]]:
        """The keys with a value, and the ids that belong into each index."""
        head, placed, by_symbol = self._orders, f"{self._idem}{PLACE}:", f"{self._orders}by_symbol:"
        values: dict[str, str] = {}
        is_open: list[str] = []
        members: dict[str, list[str]] = {f"{head}open": is_open}
        for order in orders:
            name = order.client_order_id
            values[head + name] = order_json(order)
            if order.idem_key is not None:
                # An order is the record of its own key: kept as long as the order is.
                values[placed + order.idem_key] = name
            if order.is_open:
                is_open.append(name)
            members.setdefault(by_symbol + order.symbol, []).append(name)
        for done in answered:
            values[self._answer_key(done)] = _encode(done).decode()
        return values, members

    def _answer_key(self, done: Answered) -> str:
        return f"{self._idem}{done.operation}:{done.key}"

    def _meta(self, seq: int) -> str:
        return _encode(Meta(lineage=self._lineage, seq=seq, freeze=self._freeze)).decode()

    def _fall_behind(self, error: HoldfastError, begun: float) -> None:
        now = self._timer()
        # A server that answers slowly must not hold up every batch.
        self._try_at = now + max(RETRY_SECONDS, 10.0 * (now - begun))
        if not self._is_behind:
            logger.warning("the view of the orders is behind, the log is not: %s", error)
        self._is_behind = True
        self._meter.gauge(measured.VIEW_BEHIND, 1.0)

    # -- reading -------------------------------------------------------------------------------------

    def _refuse_newer(self, found: str | None, lineage: str, seq: int) -> None:
        if found is None:
            if self._keys():
                raise _refusal("Redis holds orders that no Holdfast store wrote")
            return
        try:
            meta = msgspec.json.decode(found, type=Meta)
        except msgspec.DecodeError:
            raise _refusal("Redis holds orders:meta in another form") from None
        if meta.lineage != lineage:
            raise _refusal(f"Redis holds the orders of another state directory ({meta.lineage})")
        if meta.seq > seq:
            raise _refusal(f"Redis knows record {meta.seq} and the state directory ends at {seq}")

    def _keys(self) -> list[str]:
        return [*self._scan(f"{self._orders}*"), *self._scan(f"{self._idem}*")]

    def _scan(self, pattern: str) -> set[str]:
        seen: set[str] = set()
        cursor = 0
        while True:
            cursor, page = self._kv.scan(cursor, pattern, 1000)
            seen.update(page)
            if cursor == 0:
                return seen

    def _everything(self) -> dict[str, str | set[str]]:
        found: dict[str, str | set[str]] = {}
        indexes = (f"{self._orders}open", f"{self._orders}by_symbol:")
        plain = []
        for key in self._keys():
            if key.startswith(indexes):
                found[key] = self._kv.smembers(key)
            else:
                plain.append(key)
        for keys in _chunks(plain):
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


def _chunks(items: Iterable[T]) -> Iterator[list[T]]:
    rest = iter(items)
    while chunk := list(islice(rest, CHUNK)):
        yield chunk
