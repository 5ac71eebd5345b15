"""Names and values of the view's keys: which keys an order, an answer or a record becomes.

    orders:<client_order_id>       the order as JSON
    orders:open                    the ids of open orders
    orders:by_symbol:<symbol>      the ids of a symbol
    idem:<operation>:<key>         the remembered answer as JSON (of a placement: the order's id)
    orders:events                  the latest writes of the log as a stream; an id is a record's number
    orders:keys                    a list of all keys above: what the view may delete
    orders:meta                    lineage of the store, last record, and the freeze epoch

Never: makes a call or a decision.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple, TypeVar

import msgspec

from holdfast.errors import BadConfig
from holdfast.orders.logstore.log import HEAD_BYTES, SUFFIX
from holdfast.orders.model.commands import PLACE, Change
from holdfast.orders.model.order import Answered, FreezeState, Order, order_json

T = TypeVar("T")
PREFIX: Final = re.compile(r"[A-Za-z0-9:._-]{0,64}")
CHUNK: Final = 500
_encode: Final = msgspec.json.Encoder(order="sorted", decimal_format="string").encode


class Meta(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    lineage: str
    seq: int
    freeze: FreezeState
    building: bool = False
    """Whether a rebuild is still running."""


class Entries(NamedTuple):
    """Keys with their values, and the members of each index."""

    values: dict[str, str]
    members: dict[str, list[str]]
    ended: list[str]
    """Ids to remove from the open set."""
    new: list[str]
    """Keys that may be new."""


class Keys:
    """Key names under one prefix."""

    def __init__(self, prefix: str) -> None:
        if not isinstance(prefix, str) or PREFIX.fullmatch(prefix) is None:
            raise BadConfig(f"the key prefix is {prefix!r}: use up to 64 letters, digits and :._-")
        self.orders = f"{prefix}orders:"
        self._idem = f"{prefix}idem:"
        self._placed = f"{self._idem}{PLACE}:"
        self._by_symbol = f"{self.orders}by_symbol:"
        self.open = f"{self.orders}open"
        self.meta = f"{self.orders}meta"
        self.events = f"{self.orders}events"
        self.index = f"{self.orders}keys"
        self.fixed = frozenset({self.meta, self.events, self.index})

    def answer(self, done: Answered) -> str:
        return f"{self._idem}{done.operation}:{done.key}"

    def by_symbol(self, symbol: str) -> str:
        return self._by_symbol + symbol

    def is_set(self, key: str) -> bool:
        return key == self.open or key.startswith(self._by_symbol)

    def entries(
        self,
        orders: Iterable[Order],
        answered: Iterable[Answered],
        known: Collection[str] = frozenset(),
    ) -> Entries:
        """`known` are the ids of orders whose keys exist already."""
        new: list[str] = []
        values: dict[str, str] = {}
        is_open: list[str] = []
        members: dict[str, list[str]] = {self.open: is_open}
        ended: list[str] = []
        for order in orders:
            name = order.client_order_id
            is_new = name not in known
            values[self.orders + name] = order_json(order)
            if is_new:
                new.append(self.orders + name)
            if is_new and order.idem_key is not None:
                # A placement is remembered by its order, as long as the order exists.
                values[self._placed + order.idem_key] = name
                new.append(self._placed + order.idem_key)
            (is_open if order.is_open else ended).append(name)
            if is_new:
                members.setdefault(self._by_symbol + order.symbol, []).append(name)
        for done in answered:
            key = self.answer(done)
            values[key] = _encode(done).decode()
            new.append(key)
        return Entries(values, {key: ids for key, ids in members.items() if ids}, ended, new)


def meta_json(meta: Meta) -> str:
    return _encode(meta).decode()


def event_fields(lineage: str, lines: Sequence[bytes]) -> dict[str, str]:
    """One write of the log as an entry of the stream: its records as they are in the log."""
    records = b"[%b]" % b",".join([line[HEAD_BYTES : -len(SUFFIX)] for line in lines])
    return {"kind": "records", "lineage": lineage, "records": records.decode()}


def reset_fields(lineage: str) -> dict[str, str]:
    """An entry that says: records up to this one may be missing from the stream; read the orders."""
    return {"kind": "reset", "lineage": lineage}


def merged(changes: Sequence[Change]) -> tuple[list[Order], list[Answered], set[str]]:
    """The latest version of each order, the answers, and the ids of orders that existed before."""
    orders: dict[str, Order] = {}
    known: set[str] = set()
    answered = []
    for change in changes:
        for order in change.orders:
            if order.version > 1 and order.client_order_id not in orders:
                known.add(order.client_order_id)
            orders[order.client_order_id] = order
        if change.answered is not None:
            answered.append(change.answered)
    return list(orders.values()), answered, known


def chunks(items: Iterable[T]) -> Iterator[list[T]]:
    rest = iter(items)
    while chunk := list(islice(rest, CHUNK)):
        yield chunk
