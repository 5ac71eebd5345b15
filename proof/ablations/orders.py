"""Safeguards of the order store and of the execution loop."""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import replace

from holdfast.orders.exchange.port import ExchangeState
from holdfast.orders.execution import desk, line, loop, risk
from holdfast.orders.logstore import disk, durable
from holdfast.orders.model import commands, order
from proof.ablations.swap import QUIET, Ablation, Swap

TRADING: Final = (
    *QUIET,
    *(("holders", "0"), ("traders", "files"), ("lock_servers", "0"), ("rate", "2")),
    ("faults", "crash,power,cut,loss,slow"),
)
RESTARTS: Final = (*TRADING, ("rate", "3"))
"""Enough orders that one is in flight at some restart."""


def _order_sync() -> list[Swap]:
    return [(disk, "DSYNC", 0), (disk.Disk, "sync", lambda *_: None)]


def _folder_sync() -> list[Swap]:
    return [(disk.Disk, "sync_folder", lambda *_: None)]


def _whole() -> list[Swap]:
    return [(durable.DurableOrderStore, "_check_whole", lambda _: None)]


def _ask_first() -> list[Swap]:
    return [(desk.Desk, "settle", lambda *_: desk.Answer.ABSENT)]


def _freeze() -> list[Swap]:
    return [(commands.Place, "_check_freeze", lambda *_: None)]


def _wish() -> list[Swap]:
    return [(risk.RiskMonitor, "wish", lambda _: None)]


def _reconcile() -> list[Swap]:
    return [
        (loop.ExecutionLoop, "_mend", lambda *_: None),
        (desk.Desk, "is_quiet", lambda *_: False),
    ]


def _order_key() -> list[Swap]:
    def numbered(self: Any, moment: Any) -> str:
        return order_id(replace(self, idem_key=None), moment)

    order_id = commands.Place.order_id
    return [(commands.Place, "order_id", numbered)]


def _one_no() -> list[Swap]:
    def ended(self: Any, known: order.Order) -> bool:
        self.close_missing(known)
        return True

    return [(desk.Desk, "_gone", ended)]


def _adapter() -> list[Swap]:
    return [(line.Line, "_heard", lambda self, call, about, ask: ask())]


def _short_fill() -> list[Swap]:
    def only_what_is_equal(known: order.Order, said: ExchangeState) -> Any:
        return None if said is ExchangeState.FILLED else following(known, said)

    following = desk._next
    return [(desk, "_next", only_what_is_equal)]


ORDERS: Final = (
    Ablation(
        "order-sync", "orders are acknowledged before they are on the disk", _order_sync, TRADING
    ),
    Ablation(
        "folder-sync",
        "new files of the order store are not synced in their folder",
        _folder_sync,
        TRADING,
    ),
    Ablation(
        "whole", "an order store continues after an interrupt inside a change", _whole, TRADING
    ),
    Ablation("ask-first", "an order without an answer is sent again unasked", _ask_first, TRADING),
    Ablation("order-freeze", "orders are placed while frozen", _freeze, TRADING),
    Ablation("wish", "a requested freeze has no effect before the next step", _wish, TRADING),
    Ablation("reconcile", "differences from the exchange are not resolved", _reconcile, RESTARTS),
    Ablation("order-key", "a repeated intent is a new order", _order_key, TRADING),
    Ablation("one-no", 'an accepted order is closed after one "not known"', _one_no, TRADING),
    Ablation("adapter", "an error of an adapter ends a step", _adapter, TRADING),
    Ablation("short-fill", "filled with less than ordered stays open", _short_fill, TRADING),
)
