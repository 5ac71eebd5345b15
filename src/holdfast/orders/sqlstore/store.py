"""Orders in the SQLite or PostgreSQL store: the same rules, applied inside one transaction.

Promises: order, remembered answer, freeze epoch and indexes change in one commit, which is durable when
the call returns. Any number of processes may share the database.
Never: adds a log or snapshots (the database has both), or rules to those of the model.
"""

from __future__ import annotations

import logging
from decimal import Decimal
from typing import Any, Final, TypeVar

import msgspec

from holdfast.core.ids import Ids
from holdfast.errors import HoldfastError, IdempotencyConflict
from holdfast.metrics import Meter, NullMeter
from holdfast.orders import metrics as measured
from holdfast.orders.model.book import RETAIN_SECONDS
from holdfast.orders.model.commands import (
    CancelAll,
    Change,
    Command,
    Fill,
    Freeze,
    Import,
    Moment,
    Move,
    Place,
    Thaw,
    Verdict,
)
from holdfast.orders.model.options import check_options
from holdfast.orders.model.order import Answered, FreezeState, Order, OrderState, Side
from holdfast.orders.model.rules import check_consistent, check_reference, check_symbol
from holdfast.orders.model.store import AsyncOrderStore
from holdfast.orders.sqlstore import script
from holdfast.orders.sqlstore.script import OrderRows, ReadSet, WriteSet, own
from holdfast.store.port import Dialect
from holdfast.store.script import Rows, Script
from holdfast.store.store import Store

T = TypeVar("T")
logger: Final = logging.getLogger("holdfast.orders")
PAGE: Final = 1000
FORGET_LIMIT: Final = 1000
_ids: Final = msgspec.json.Decoder(tuple[str, ...])


class RowBook:
    """The rows that one transaction has read and locked: see `commands.Book`."""

    def __init__(self, seen: OrderRows) -> None:
        self._orders = {row[0]: to_order(row) for row in seen.orders}
        self._answer = to_answered(seen.answer[0]) if seen.answer else None
        self.freeze = to_freeze(seen.freeze)

    def order(self, client_order_id: str) -> Order | None:
        return self._orders.get(client_order_id)

    def open(self) -> list[Order]:
        return [order for order in self._orders.values() if order.is_open]

    def answered(self, operation: str, key: str) -> Answered | None:
        found = self._answer
        return found if found and (found.operation, found.key) == (operation, key) else None


class SqlOrders(AsyncOrderStore):
    """See `store.AsyncOrderStore`. The caller opens and closes the store."""

    def __init__(
        self,
        store: Store,
        *,
        namespace: str = "",
        retain_seconds: float = RETAIN_SECONDS,
        meter: Meter | None = None,
    ) -> None:
        check_options(namespace, retain_seconds)
        self._store = store
        self._namespace = namespace
        self._retain_seconds = retain_seconds
        self._meter = meter or NullMeter()

    async def run(self, command: Command[T]) -> T:
        try:
            # Drawn once per call: a transaction that runs again uses the same order id.
            name = self._store.ids.task(self._store.now())
            verdict = await self._store.run(
                lambda _, __, now: self._judged(command, name, now),
                repeatable=command.idem_key is not None,
            )
        except HoldfastError as error:
            self._meter.count(measured.COMMANDS, operation=command.operation, outcome=error.code)
            if isinstance(error, IdempotencyConflict):
                self._count_key(command, "conflict")
            raise
        self._tell(command, verdict)
        return verdict.answer

    async def get(self, client_order_id: str) -> Order | None:
        order_id = check_reference(client_order_id)
        rows = await self._store.read(lambda: script.get([order_id]))
        return to_order(rows[0]) if rows else None

    async def orders(self) -> list[Order]:
        return await self._pages(own("page_orders"))

    async def open_orders(self, symbol: str | None = None) -> list[Order]:
        if symbol is not None:
            check_symbol(symbol)
        found = await self._pages(own("page_open_orders"))
        return [order for order in found if symbol is None or order.symbol == symbol]

    async def by_symbol(self, symbol: str) -> list[Order]:
        return await self._pages(own("page_symbol_orders"), symbol=check_symbol(symbol))

    async def freeze_state(self) -> FreezeState:
        return to_freeze(await self._store.read(script.get_freeze))

    async def forget(self) -> int:
        """Drops answers that retention no longer covers. Call it regularly."""
        before = self._store.now() - self._retain_seconds
        return await self._store.run(lambda *_: script.forget(before, FORGET_LIMIT))

    async def verify(self) -> list[str]:
        """Orders with contradictory fields, as text. The database maintains the indexes."""
        wrong = []
        for order in await self.orders():
            try:
                check_consistent(order)
            except HoldfastError as error:
                wrong.append(str(error))
        return wrong

    def _judged(self, command: Command[T], name: str, now: float) -> Script[Verdict[T]]:
        moment = Moment(now, self._namespace, name, 0)
        book = RowBook((yield from script.read(read_set(command, moment))))
        verdict = command.judge(book, moment)
        if verdict.change is not None:
            yield from script.write(write_set(book, verdict.change))
        return verdict

    async def _pages(self, statement: str, **params: Any) -> list[Order]:
        def all_pages(_: Dialect, __: Ids, ___: float) -> Script[Rows]:
            return script.page(statement, PAGE, **params)

        return [to_order(row[1:]) for row in await self._store.run(all_pages)]

    def _tell(self, command: Command[T], verdict: Verdict[T]) -> None:
        self._meter.count(measured.COMMANDS, operation=command.operation, outcome="ok")
        if verdict.note:
            self._meter.count(measured.LATE_FILLS)
            logger.info("[FILL] %s", verdict.note)
        if command.idem_key is not None:
            self._count_key(command, "hit" if verdict.replayed else "miss")
            if verdict.replayed:
                logger.info(
                    "[IDEM HIT] %s key=%s → cached result", command.operation, command.idem_key
                )

    def _count_key(self, command: Command[T], outcome: str) -> None:
        self._meter.count(measured.IDEMPOTENCY, operation=command.operation, outcome=outcome)


def read_set(command: object, moment: Moment) -> ReadSet:
    """What a command must read before it is judged."""
    match command:
        case Place():
            return ReadSet(ids=(command.order_id(moment),), freeze="see")
        case Move() | Fill():
            key = command.idem_key
            answer = None if key is None else (command.operation, key)
            return ReadSet(ids=(command.client_order_id,), answer=answer)
        case CancelAll():
            key = command.idem_key
            return ReadSet(
                is_all_open=True, answer=None if key is None else (command.operation, key)
            )
        case Freeze() | Thaw():
            return ReadSet(freeze="change")
        case Import():
            return ReadSet(ids=tuple(order.client_order_id for order in command.orders))
        case _:
            raise NotImplementedError(f"the SQL store does not know {command!r}")


def write_set(book: RowBook, change: Change) -> WriteSet:
    """A change as rows."""
    new, changed = [], []
    for order in change.orders:
        before = book.order(order.client_order_id)
        if before is None:
            new.append(to_row(order))
        else:
            row = to_row(order)
            changed.append((row[0], before.version, *row[5:9], row[11]))
    answer = freeze = None
    if change.answered is not None:
        done = change.answered
        answer = {
            "operation": done.operation,
            "key": done.key,
            "request": done.request,
            "ids_json": msgspec.json.encode(done.ids).decode(),
            "changed": int(done.changed),
            "at": done.at,
        }
    if change.freeze is not None:
        state = change.freeze
        freeze = {
            "epoch": state.epoch,
            "frozen": int(state.frozen),
            "reason": state.reason,
            "at": state.at,
        }
    return WriteSet(new, changed, answer, freeze)


def to_row(order: Order) -> tuple[Any, ...]:
    return (
        order.client_order_id,
        order.symbol,
        order.side.value,
        str(order.qty),
        str(order.price),
        order.state.value,
        str(order.filled_qty),
        None if order.avg_fill_price is None else str(order.avg_fill_price),
        order.version,
        order.epoch,
        order.created_at,
        order.updated_at,
        order.idem_key,
    )


def to_order(row: Any) -> Order:
    name, symbol, side, qty, price, state, filled, average, version, epoch, made, changed, key = row
    return Order(
        client_order_id=name,
        symbol=symbol,
        side=Side(side),
        qty=Decimal(qty),
        price=Decimal(price),
        state=OrderState(state),
        filled_qty=Decimal(filled),
        avg_fill_price=None if average is None else Decimal(average),
        version=version,
        epoch=epoch,
        created_at=float(made),
        updated_at=float(changed),
        idem_key=key,
    )


def to_answered(row: Any) -> Answered:
    operation, key, request, ids_json, changed, at = row
    return Answered(
        operation=operation,
        key=key,
        request=request,
        ids=_ids.decode(ids_json),
        changed=bool(changed),
        at=at,
    )


def to_freeze(row: Any) -> FreezeState:
    epoch, frozen, reason, at = row
    return FreezeState(epoch=epoch, frozen=bool(frozen), reason=reason, at=float(at))
