"""Turns the arguments of a call into a command; shared by blocking and async calls.

Promises: arguments are checked once, here.
"""

from __future__ import annotations

from holdfast.core.check import check_choice, shown
from holdfast.orders.errors import InvalidOrder
from holdfast.orders.model.commands import CancelAll, Fill, Freeze, Move, Place
from holdfast.orders.model.money import Money, positive
from holdfast.orders.model.order import Intent, OrderState, Side
from holdfast.orders.model.rules import (
    check_count,
    check_key,
    check_reason,
    check_reference,
    check_symbol,
)


def place(
    symbol: str, side: Side, qty: Money, price: Money, *, idem_key: str | None, epoch: int | None
) -> Place:
    if type(side) is not Side:
        side = check_choice("side", side, Side, wrong=InvalidOrder)
    return Place(
        symbol=check_symbol(symbol),
        side=side,
        qty=positive(qty, "qty"),
        price=positive(price, "price"),
        idem_key=check_key(idem_key),
        epoch=check_count("epoch", epoch),
    )


def intent(wish: Intent) -> Intent:
    """Checks an intent: exact amounts, a valid side, a key."""
    if not isinstance(wish, Intent):
        raise InvalidOrder(f"the intent is {shown(wish)}: give an Intent")
    if wish.key is None:
        raise InvalidOrder(
            "the intent has no key: without one a retry would place the order again; set `key`"
        )
    checked = place(wish.symbol, wish.side, wish.qty, wish.price, idem_key=wish.key, epoch=None)
    return Intent(checked.symbol, checked.side, checked.qty, checked.price, wish.key)


def move(
    client_order_id: str,
    new_state: OrderState,
    *,
    idem_key: str | None,
    expected_version: int | None,
) -> Move:
    return Move(
        client_order_id=check_reference(client_order_id),
        state=check_choice("new_state", new_state, OrderState, wrong=InvalidOrder),
        idem_key=check_key(idem_key),
        expected_version=check_count("expected_version", expected_version),
    )


def fill(
    client_order_id: str,
    filled_qty: Money,
    avg_fill_price: Money,
    *,
    idem_key: str | None,
    expected_version: int | None,
) -> Fill:
    return Fill(
        client_order_id=check_reference(client_order_id),
        filled_qty=positive(filled_qty, "filled_qty"),
        avg_fill_price=positive(avg_fill_price, "avg_fill_price"),
        idem_key=check_key(idem_key),
        expected_version=check_count("expected_version", expected_version),
    )


def cancel_all(idem_key: str | None) -> CancelAll:
    return CancelAll(idem_key=check_key(idem_key))


def freeze(reason: str) -> Freeze:
    return Freeze(reason=check_reason(reason))
