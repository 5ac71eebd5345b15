"""From what a caller passes to a command: checked once, for blocking and awaited calls alike."""

from __future__ import annotations

from holdfast.errors import InvalidOrder
from holdfast.orders.commands import CancelAll, Fill, Freeze, Move, Place
from holdfast.orders.money import Money, positive
from holdfast.orders.order import OrderState, Side
from holdfast.orders.rules import check_key, check_reason, check_symbol


def place(
    symbol: str, side: Side, qty: Money, price: Money, *, idem_key: str | None, epoch: int | None
) -> Place:
    if type(side) is not Side:
        side = _side(side)
    return Place(
        symbol=check_symbol(symbol),
        side=side,
        qty=positive(qty, "qty"),
        price=positive(price, "price"),
        idem_key=check_key(idem_key),
        epoch=epoch,
    )


def _side(side: str) -> Side:
    try:
        return Side(side)
    except ValueError:
        raise InvalidOrder(f"the side is {side!r}: use Side.BUY or Side.SELL") from None


def move(
    client_order_id: str,
    new_state: OrderState,
    *,
    idem_key: str | None,
    expected_version: int | None,
) -> Move:
    try:
        state = OrderState(new_state)
    except ValueError:
        known = ", ".join(OrderState)
        raise InvalidOrder(f"the state is {new_state!r}: it must be one of {known}") from None
    return Move(
        client_order_id=client_order_id,
        state=state,
        idem_key=check_key(idem_key),
        expected_version=expected_version,
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
        client_order_id=client_order_id,
        filled_qty=positive(filled_qty, "filled_qty"),
        avg_fill_price=positive(avg_fill_price, "avg_fill_price"),
        idem_key=check_key(idem_key),
        expected_version=expected_version,
    )


def cancel_all(idem_key: str | None) -> CancelAll:
    return CancelAll(idem_key=check_key(idem_key))


def freeze(reason: str) -> Freeze:
    return Freeze(reason=check_reason(reason))
