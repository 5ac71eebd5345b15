"""Transactions of the order store over plain rows. The layer above knows what an order means.

Promises: order, remembered answer and freeze epoch change together or not at all. A row changes only from
the version that was read.
"""

from __future__ import annotations

from typing import Any, Final, Literal, NamedTuple

from holdfast.errors import VersionConflict
from holdfast.store.script import Rows, Script, call, call_rows, statements_of

NO_FREEZE: Final = (0, 0, "", 0.0)


own: Final = statements_of("holdfast.orders.sqlstore")
"""Names the statements of this package."""


class ReadSet(NamedTuple):
    """Rows that a request must read, and lock, before it is judged."""

    ids: tuple[str, ...] = ()
    is_all_open: bool = False
    answer: tuple[str, str] | None = None
    """(operation, key)."""
    freeze: Literal["", "see", "change"] = ""
    """How the request uses the freeze epoch: not at all, reads it, or changes it."""


class OrderRows(NamedTuple):
    orders: Rows
    answer: Rows
    freeze: Any


class WriteSet(NamedTuple):
    """Rows that a request writes."""

    new: list[tuple[Any, ...]]
    changed: list[tuple[Any, ...]]
    answer: dict[str, Any] | None
    freeze: dict[str, Any] | None


def read(read_set: ReadSet) -> Script[OrderRows]:
    """Reads in a fixed order (freeze, then orders), so that requests rarely deadlock."""
    freeze: Rows = [NO_FREEZE]
    if read_set.freeze:
        freeze = yield call(
            own("lock_order_freeze") if read_set.freeze == "change" else own("get_order_freeze")
        )
    orders: Rows = []
    if read_set.is_all_open:
        orders = yield call(own("lock_open_orders"))
    elif read_set.ids:
        orders = yield call(own("lock_orders"), ids=list(read_set.ids))
    # Read after the locks, to see answers of a transaction that held them.
    answer: Rows = []
    if read_set.answer is not None:
        operation, key = read_set.answer
        answer = yield call(own("get_order_answer"), operation=operation, key=key)
    return OrderRows(orders, answer, freeze[0])


def write(change: WriteSet) -> Script[None]:
    if change.new:
        yield call_rows(own("insert_orders"), change.new)
    if change.changed:
        done = yield call_rows(own("write_orders"), change.changed)
        if len(done) != len(change.changed):
            raise VersionConflict("another caller changed the order at the same time: try again")
    if change.answer is not None:
        yield call(own("insert_order_answer"), **change.answer)
    if change.freeze is not None:
        yield call(own("write_order_freeze"), **change.freeze)


def get(ids: list[str]) -> Script[Rows]:
    return (yield call(own("get_orders"), ids=ids))


def get_freeze() -> Script[tuple[Any, ...]]:
    rows = yield call(own("get_order_freeze"))
    return tuple(rows[0])


def page(statement: str, size: int, **params: Any) -> Script[Rows]:
    """All rows of a list, `size` at a time. Each row starts with its number."""
    found: Rows = []
    after = 0
    while True:
        rows = yield call(statement, after=after, limit=size, **params)
        found += rows
        if len(rows) < size:
            return found
        after = rows[-1][0]


def forget(before: float, limit: int) -> Script[int]:
    """Deletes answers that retention no longer covers. Returns how many."""
    return len((yield call(own("forget_order_answers"), before=before, limit=limit)))
