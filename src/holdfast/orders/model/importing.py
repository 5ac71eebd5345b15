"""Reads a plain `orders.jsonl`, one JSON object per line, as other systems save orders.

Promises: all lines are read and checked before the first is imported. Every bad line is reported with its
number. An import is complete or has no effect, and importing again changes nothing.
Never: guesses an amount. A float with more digits than a person would write is a bad line.
"""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import msgspec

from holdfast.core.check import shown
from holdfast.errors import BatchTooLarge, HoldfastError, InvalidInput
from holdfast.orders.errors import InvalidOrder, disk_error
from holdfast.orders.model.commands import Import
from holdfast.orders.model.money import positive
from holdfast.orders.model.order import ZERO, Order, OrderState, Side
from holdfast.orders.model.rules import check_consistent, check_id, check_symbol

ORDERS_MAX: Final = 100_000
SHOWN_MAX: Final = 10
_line: Final = msgspec.json.Decoder(dict[str, Any])


def read_orders_jsonl(path: Path, now: float) -> Import:
    """The orders of a file as one command. `now` is used for times that a line does not give."""
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise disk_error(error, f"{shown(str(path))} cannot be read") from error
    if len(lines) > ORDERS_MAX:
        raise BatchTooLarge(
            f"{path} has {len(lines)} lines: at most {ORDERS_MAX} are imported at once"
        )
    found: dict[str, Order] = {}
    bad: list[str] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            order = _order(_line.decode(line), now)
            if order.client_order_id in found:
                raise InvalidOrder(f"order '{order.client_order_id}' stands there twice")
            found[order.client_order_id] = order
        except (HoldfastError, msgspec.DecodeError, UnicodeDecodeError) as error:
            bad.append(f"line {number}: {error}")
    if bad:
        more = f" (and {len(bad) - SHOWN_MAX} more)" if len(bad) > SHOWN_MAX else ""
        raise InvalidInput(f"{path} was not imported: {'; '.join(bad[:SHOWN_MAX])}{more}")
    return Import(orders=tuple(found.values()))


def _order(fields: dict[str, Any], now: float) -> Order:
    """One line as an order. A missing field without a default is named in the error."""
    made = _time(fields, "created_at", now)
    order = Order(
        client_order_id=check_id(_text(fields, "client_order_id")),
        symbol=check_symbol(_text(fields, "symbol")),
        side=_side(_text(fields, "side")),
        qty=positive(_given(fields, "qty"), "qty"),
        price=positive(_given(fields, "price"), "price"),
        state=_state(_text(fields, "state")),
        filled_qty=_amount(fields, "filled_qty") or ZERO,
        avg_fill_price=_amount(fields, "avg_fill_price"),
        version=1,
        created_at=made,
        updated_at=max(made, _time(fields, "updated_at", made)),
    )
    if order.filled_qty == ZERO and order.avg_fill_price is not None:
        raise InvalidOrder("avg_fill_price is given and nothing is filled")
    check_consistent(order)
    return order


def _given(fields: dict[str, Any], name: str) -> Any:
    if fields.get(name) is None:
        raise InvalidOrder(f"{name} is missing")
    return fields[name]


def _text(fields: dict[str, Any], name: str) -> str:
    value = _given(fields, name)
    if not isinstance(value, str):
        raise InvalidOrder(f"{name} is {value!r}: it must be text")
    return value


def _amount(fields: dict[str, Any], name: str) -> Decimal | None:
    """A missing value, null and zero all mean: none."""
    value = fields.get(name)
    if value is None or (not isinstance(value, bool) and value in (0, "0", "0.0")):
        return None
    return positive(value, name)


def _time(fields: dict[str, Any], name: str, default: float) -> float:
    value = fields.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e11:
        raise InvalidOrder(f"{name} is {value!r}: it must be epoch seconds")
    return float(value)


def _side(value: str) -> Side:
    try:
        return Side(value.upper())
    except ValueError:
        raise InvalidOrder(f"side is {value!r}: it must be BUY or SELL") from None


def _state(value: str) -> OrderState:
    try:
        return OrderState(value.upper())
    except ValueError:
        raise InvalidOrder(
            f"state is {value!r}: it must be one of {', '.join(OrderState)}"
        ) from None
