"""Compares the orders of the store with those of the exchange.

Promises: no difference means that both sides have the same orders, fills and final states.
Never: I/O; the loop decides what to do about a difference.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Final

import msgspec

from holdfast.orders.exchange.port import ExchangeOrder, ExchangeState
from holdfast.orders.model.order import Order, OrderState
from holdfast.orders.model.rules import is_unheard


class Kind(StrEnum):
    """The kinds of differences."""

    ARRIVED = "arrived"
    """The intent was not confirmed; the exchange has the order."""
    NEVER_ARRIVED = "never_arrived"
    """The intent was not confirmed; the exchange does not know it."""
    FILLED = "filled"
    """More is filled than the store has recorded."""
    FILLED_SHORT = "filled_short"
    """The exchange reports it as filled, with less than the ordered quantity."""
    CANCELED = "canceled"
    REJECTED = "rejected"
    CANCEL_UNDONE = "cancel_undone"
    """A cancel was requested, and the order is still open."""
    GONE = "gone"
    """The order was open at the exchange, which no longer knows it."""
    OPEN_THERE = "open_there"
    """The store has it as ended."""
    FILLED_LESS = "filled_less"
    """The store has recorded more fills than the exchange."""
    UNKNOWN_TO_US = "unknown_to_us"


ALARMING: Final = frozenset({Kind.GONE, Kind.OPEN_THERE, Kind.FILLED_LESS, Kind.UNKNOWN_TO_US})
"""Differences that neither a crash nor a lost message explains."""


class Difference(msgspec.Struct, frozen=True):
    """One difference between the two sides."""

    kind: Kind
    client_order_id: str
    ours: str
    theirs: str


def compare(ours: Iterable[Order], theirs: Iterable[ExchangeOrder]) -> list[Difference]:
    """In the order of the store's orders; orders unknown to the store come last."""
    left = {each.client_order_id: each for each in theirs}
    found = [
        each for order in ours for each in _about(order, left.pop(order.client_order_id, None))
    ]
    found += [
        Difference(Kind.UNKNOWN_TO_US, name, "", _said(each.state, each))
        for name, each in left.items()
    ]
    return found


def _about(order: Order, seen: ExchangeOrder | None) -> Iterator[Difference]:
    ours = _said(order.state, order)
    name = order.client_order_id
    if seen is None:
        if order.is_open:
            yield Difference(_missing(order), name, ours, "")
        return
    theirs = _said(seen.state, seen)
    if seen.filled_qty > order.filled_qty:
        yield Difference(Kind.FILLED, name, ours, theirs)
    elif seen.filled_qty < order.filled_qty:
        yield Difference(Kind.FILLED_LESS, name, ours, theirs)
    if (kind := _state_difference(order, seen)) is not None:
        yield Difference(kind, name, ours, theirs)


def _missing(order: Order) -> Kind:
    """An order that never arrived may have a cancel request."""
    return Kind.NEVER_ARRIVED if is_unheard(order) else Kind.GONE


def _state_difference(order: Order, seen: ExchangeOrder) -> Kind | None:
    match seen.state:
        case ExchangeState.OPEN if not order.is_open:
            return Kind.OPEN_THERE
        case ExchangeState.OPEN if order.state is OrderState.PENDING:
            return Kind.ARRIVED
        case ExchangeState.OPEN if order.state is OrderState.CANCEL_PENDING:
            return Kind.CANCEL_UNDONE
        case ExchangeState.FILLED if order.is_open and seen.filled_qty < order.qty:
            return Kind.FILLED_SHORT
        case ExchangeState.CANCELED if order.is_open:
            return Kind.CANCELED
        case ExchangeState.REJECTED if order.is_open:
            return Kind.REJECTED
        case _:
            return None


def _said(state: OrderState | ExchangeState, order: Order | ExchangeOrder) -> str:
    return f"{state.value} {order.filled_qty}/{order.qty}"
