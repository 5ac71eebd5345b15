"""Reports of the execution loop as plain data, and as bytes that are equal for equal runs.

Promises: canonical JSON, money as text, times in whole milliseconds. Never: reads a clock, uses a float.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Any, TypedDict

import msgspec

from holdfast.core import codec
from holdfast.orders.execution.reconcile import Difference
from holdfast.orders.model.order import ZERO, FreezeState, Order, OrderState, Side


class Stats(msgspec.Struct, frozen=True):
    """Counts over the lifetime of the store."""

    orders_placed: int
    orders_filled: int
    orders_canceled: int
    orders_rejected: int
    orders_open: int
    freeze_events: int


class RecoveryReport(TypedDict):
    """The result of `recover_from_restart`."""

    recovered: bool
    open_orders_count: int
    open_orders: list[dict[str, Any]]
    """Open orders of the store, before the exchange was asked."""
    differences: list[dict[str, str]]
    open_after: list[str]
    """The ids that are open after both sides agree."""
    frozen: bool
    freeze_epoch: int


def stats_of(orders: Iterable[Order], freeze: FreezeState) -> Stats:
    counts = dict.fromkeys(OrderState, 0)
    for order in orders:
        counts[order.state] += 1
    ended = counts[OrderState.FILLED], counts[OrderState.CANCELED], counts[OrderState.REJECTED]
    placed = sum(counts.values())
    return Stats(placed, *ended, placed - sum(ended), freeze.epoch)


def recovery_report(
    found: list[Order],
    differences: list[Difference],
    open_after: list[Order],
    freeze: FreezeState,
) -> RecoveryReport:
    return {
        "recovered": True,
        "open_orders_count": len(found),
        "open_orders": [order_row(order) for order in found],
        "differences": [msgspec.to_builtins(difference) for difference in differences],
        "open_after": [order.client_order_id for order in open_after],
        "frozen": freeze.frozen,
        "freeze_epoch": freeze.epoch,
    }


def order_row(order: Order) -> dict[str, Any]:
    """One order as a row of a report."""
    return {
        "client_order_id": order.client_order_id,
        "idem_key": order.idem_key,
        "symbol": order.symbol,
        "side": order.side.value,
        "state": order.state.value,
        "qty": text(order.qty),
        "price": text(order.price),
        "filled_qty": text(order.filled_qty),
        "avg_fill_price": None if order.avg_fill_price is None else text(order.avg_fill_price),
        "freeze_epoch": order.epoch,
        "created_at_ms": whole_ms(order.created_at),
        "updated_at_ms": whole_ms(order.updated_at),
    }


def positions(orders: Iterable[Order]) -> dict[str, str]:
    """Bought less sold, by symbol."""
    held: dict[str, Decimal] = {}
    for order in orders:
        signed = order.filled_qty if order.side is Side.BUY else -order.filled_qty
        held[order.symbol] = held.get(order.symbol, ZERO) + signed
    return {symbol: text(qty) for symbol, qty in sorted(held.items())}


def to_bytes(report: object) -> bytes:
    """One line of canonical JSON."""
    return codec.dumps(report).encode() + b"\n"


def text(amount: Decimal) -> str:
    """Plain digits without an exponent; equal amounts have equal text."""
    shown = f"{amount.normalize():f}"
    return "0" if shown == "-0" else shown


def whole_ms(seconds: float) -> int:
    return round(seconds * 1000)
