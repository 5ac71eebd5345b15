"""Requests to an order store as data, and what each one changes.

Promises: every store uses these rules. `judge` reads a book and returns the answer and the change,
without side effects. The change and the remembered answer become durable together.
Never: I/O, clocks, randomness.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Final, Generic, Protocol, TypeVar

import msgspec

from holdfast.errors import Conflict, IdempotencyConflict
from holdfast.orders.errors import OrdersFrozen, UnknownOrder
from holdfast.orders.model import rules
from holdfast.orders.model.order import Answered, FreezeState, Order, OrderState, Side

T = TypeVar("T")

PLACE: Final = "place"
MOVE: Final = "state"
FILL: Final = "fill"
CANCEL_ALL: Final = "cancel-all"


class Book(Protocol):
    """The state that a command reads."""

    @property
    def freeze(self) -> FreezeState: ...

    def order(self, client_order_id: str) -> Order | None: ...

    def open(self) -> Iterable[Order]:
        """Oldest first."""
        ...

    def answered(self, operation: str, key: str) -> Answered | None: ...


class Change(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """All effects of a command, applied completely or not at all: the new state of everything it touched."""

    orders: tuple[Order, ...] = ()
    answered: Answered | None = None
    freeze: FreezeState | None = None


class Verdict(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """The answer to a command, and the change that must be durable before it is given."""

    answer: T
    change: Change | None = None
    replayed: bool = False
    note: str = ""
    """The change to log."""


class Moment(msgspec.Struct, frozen=True, gc=False):
    """Inputs that a rule must not obtain itself."""

    now: float
    namespace: str
    lineage: str
    number: int
    """A name that is unique together with the lineage, for orders without a key."""


class Command(Protocol[T]):
    @property
    def operation(self) -> str: ...

    @property
    def idem_key(self) -> str | None: ...

    def judge(self, book: Book, moment: Moment) -> Verdict[T]: ...


class Place(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    operation = PLACE
    symbol: str
    side: Side
    qty: Decimal
    price: Decimal
    idem_key: str | None = None
    epoch: int | None = None

    def order_id(self, moment: Moment) -> str:
        if self.idem_key is None:
            serial = f"{moment.lineage}:{moment.number}"
            return rules.client_order_id(moment.namespace, serial, "unnamed")
        return rules.client_order_id(moment.namespace, self.idem_key)

    def judge(self, book: Book, moment: Moment) -> Verdict[Order]:
        name = self.order_id(moment)
        known = book.order(name)
        if known is not None:
            # The order itself remembers its key: a retry finds it even after the answer was
            # forgotten.
            self._check_same(known)
            return Verdict(rules.as_placed(known), replayed=True)
        self._check_freeze(book.freeze)
        order = Order(
            client_order_id=name,
            symbol=self.symbol,
            side=self.side,
            qty=self.qty,
            price=self.price,
            state=OrderState.PENDING,
            epoch=book.freeze.epoch,
            created_at=moment.now,
            updated_at=moment.now,
            idem_key=self.idem_key,
        )
        return Verdict(order, Change(orders=(order,)))

    def _check_same(self, known: Order) -> None:
        first = rules.asked(known)
        again = (self.symbol, self.side, self.qty, self.price)
        if first != again:
            raise conflict(
                PLACE, self.idem_key or "", " ".join(map(str, first)), " ".join(map(str, again))
            )

    def _check_freeze(self, freeze: FreezeState) -> None:
        if freeze.frozen:
            why = f" ({freeze.reason})" if freeze.reason else ""
            raise OrdersFrozen(f"orders are frozen in epoch {freeze.epoch}{why}: thaw first")
        if self.epoch is not None and self.epoch != freeze.epoch:
            raise OrdersFrozen(
                f"the order was meant for epoch {self.epoch} and it is {freeze.epoch} now: there was a "
                "freeze in between; decide again for the new epoch"
            )


class Move(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    operation = MOVE
    client_order_id: str
    state: OrderState
    idem_key: str | None = None
    expected_version: int | None = None

    def judge(self, book: Book, moment: Moment) -> Verdict[bool]:
        request = f"{self.client_order_id} {self.state.value} {self.expected_version}"
        done = _answered(book, MOVE, self.idem_key, request)
        if done is not None:
            return Verdict(done.changed, replayed=True)
        order = _known(book, self.client_order_id)
        rules.check_version(order, self.expected_version)
        after = rules.moved(order, self.state, moment.now)
        return _one(MOVE, self.idem_key, request, before=order, after=after, now=moment.now)


class Fill(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    operation = FILL
    client_order_id: str
    filled_qty: Decimal
    avg_fill_price: Decimal
    idem_key: str | None = None
    expected_version: int | None = None

    def judge(self, book: Book, moment: Moment) -> Verdict[bool]:
        request = (
            f"{self.client_order_id} {self.filled_qty} {self.avg_fill_price} "
            f"{self.expected_version}"
        )
        done = _answered(book, FILL, self.idem_key, request)
        if done is not None:
            return Verdict(done.changed, replayed=True)
        order = _known(book, self.client_order_id)
        rules.check_version(order, self.expected_version)
        after = rules.filled(order, self.filled_qty, self.avg_fill_price, moment.now)
        verdict = _one(FILL, self.idem_key, request, before=order, after=after, now=moment.now)
        if after is None:
            note = (
                f"late fill of {order.client_order_id}: {self.filled_qty}, known {order.filled_qty}"
            )
            return msgspec.structs.replace(verdict, note=note)
        return verdict


class CancelAll(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    operation = CANCEL_ALL
    idem_key: str | None = None

    def judge(self, book: Book, moment: Moment) -> Verdict[list[str]]:
        done = _answered(book, CANCEL_ALL, self.idem_key, "all")
        if done is not None:
            return Verdict(list(done.ids), replayed=True)
        waiting = list(book.open())
        marked = [rules.moved(order, OrderState.CANCEL_PENDING, moment.now) for order in waiting]
        ids = tuple(order.client_order_id for order in waiting)
        answered = None
        if self.idem_key is not None:
            answered = Answered(
                operation=CANCEL_ALL, key=self.idem_key, request="all", ids=ids, at=moment.now
            )
        orders = tuple(order for order in marked if order is not None)
        change = Change(orders=orders, answered=answered) if orders or answered else None
        return Verdict(list(ids), change)


class Freeze(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    operation = "freeze"
    reason: str = ""
    idem_key = None

    def judge(self, book: Book, moment: Moment) -> Verdict[int]:
        if book.freeze.frozen:
            return Verdict(book.freeze.epoch)
        state = FreezeState(
            epoch=book.freeze.epoch + 1, frozen=True, reason=self.reason, at=moment.now
        )
        return Verdict(state.epoch, Change(freeze=state))


class Thaw(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    operation = "thaw"
    idem_key = None

    def judge(self, book: Book, moment: Moment) -> Verdict[int]:
        if not book.freeze.frozen:
            return Verdict(book.freeze.epoch)
        state = FreezeState(epoch=book.freeze.epoch, frozen=False, at=moment.now)
        return Verdict(state.epoch, Change(freeze=state))


class Import(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Imports orders of another system, all or none. An order that exists already must have the same
    fixed fields; it is left as it is."""

    operation = "import"
    orders: tuple[Order, ...]
    idem_key = None

    def judge(self, book: Book, moment: Moment) -> Verdict[int]:
        new = []
        for order in self.orders:
            known = book.order(order.client_order_id)
            if known is None:
                new.append(order)
            elif rules.asked(known) != rules.asked(order):
                raise Conflict(
                    f"order '{order.client_order_id}' is here already, and is another one: nothing was "
                    "imported"
                )
        return Verdict(len(new), Change(orders=tuple(new)) if new else None)


def _known(book: Book, client_order_id: str) -> Order:
    order = book.order(client_order_id)
    if order is None:
        raise UnknownOrder(f"there is no order '{client_order_id}' in this store")
    return order


def _one(
    operation: str,
    key: str | None,
    request: str,
    *,
    before: Order,
    after: Order | None,
    now: float,
) -> Verdict[bool]:
    """The verdict for one order, changed or not."""
    answered = None
    if key is not None:
        answered = Answered(
            operation=operation,
            key=key,
            request=request,
            ids=(before.client_order_id,),
            changed=after is not None,
            at=now,
        )
    if after is None and answered is None:
        return Verdict(False)
    orders = () if after is None else (after,)
    return Verdict(after is not None, Change(orders=orders, answered=answered))


def _answered(book: Book, operation: str, key: str | None, request: str) -> Answered | None:
    if key is None:
        return None
    done = book.answered(operation, key)
    if done is not None and done.request != request:
        raise conflict(operation, key, done.request, request)
    return done


def conflict(operation: str, key: str, first: str, now: str) -> IdempotencyConflict:
    return IdempotencyConflict(
        f"the key '{key}' of {operation} was used for another request ({first}, now {now}): a retry "
        "repeats the request as it was, a new request needs a new key"
    )
