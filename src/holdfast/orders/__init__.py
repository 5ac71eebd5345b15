"""Durable orders: an order store, and an execution loop on top of it.

    from holdfast.orders import DurableOrderStore

`model` has the orders and their rules. `logstore` and `sqlstore` store them. `exchange` is the port to an
exchange, with a simulated one. `execution` places orders and keeps them in step with the exchange. See
docs/howto/orders.md and docs/howto/execution.md. Public are the names of this package, its `errors` and its
metrics; its other modules are internal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast._lazy import lazily

if TYPE_CHECKING:
    from holdfast.orders.exchange.faults import CALM, ROUGH, Faults
    from holdfast.orders.exchange.port import (
        Exchange,
        ExchangeOrder,
        ExchangeState,
        Fill,
        Quote,
        Request,
    )
    from holdfast.orders.exchange.simulated import SimulatedExchange
    from holdfast.orders.execution.alerts import Alert
    from holdfast.orders.execution.loop import ExecutionLoop
    from holdfast.orders.execution.report import RecoveryReport
    from holdfast.orders.execution.risk import Limits, RiskMonitor
    from holdfast.orders.logstore.durable import DurableOrderStore
    from holdfast.orders.model.memory import InMemoryOrderStore
    from holdfast.orders.model.order import FreezeState, Intent, Order, OrderState, Side
    from holdfast.orders.model.store import AsyncOrderStore, OrderStore
    from holdfast.orders.sqlstore.blocking import SqlOrderStore
    from holdfast.orders.sqlstore.store import SqlOrders
else:
    __getattr__ = lazily(
        __name__,
        {
            "holdfast.orders.exchange.faults": ("CALM", "ROUGH", "Faults"),
            "holdfast.orders.exchange.port": (
                "Exchange",
                "ExchangeOrder",
                "ExchangeState",
                "Fill",
                "Quote",
                "Request",
            ),
            "holdfast.orders.exchange.simulated": ("SimulatedExchange",),
            "holdfast.orders.execution.alerts": ("Alert",),
            "holdfast.orders.execution.loop": ("ExecutionLoop",),
            "holdfast.orders.execution.report": ("RecoveryReport",),
            "holdfast.orders.execution.risk": ("Limits", "RiskMonitor"),
            "holdfast.orders.logstore.durable": ("DurableOrderStore",),
            "holdfast.orders.model.memory": ("InMemoryOrderStore",),
            "holdfast.orders.model.order": ("FreezeState", "Intent", "Order", "OrderState", "Side"),
            "holdfast.orders.model.store": ("AsyncOrderStore", "OrderStore"),
            "holdfast.orders.sqlstore.blocking": ("SqlOrderStore",),
            "holdfast.orders.sqlstore.store": ("SqlOrders",),
        },
    )

__all__ = [
    "CALM",
    "ROUGH",
    "Alert",
    "AsyncOrderStore",
    "DurableOrderStore",
    "Exchange",
    "ExchangeOrder",
    "ExchangeState",
    "ExecutionLoop",
    "Faults",
    "Fill",
    "FreezeState",
    "InMemoryOrderStore",
    "Intent",
    "Limits",
    "Order",
    "OrderState",
    "OrderStore",
    "Quote",
    "RecoveryReport",
    "Request",
    "RiskMonitor",
    "Side",
    "SimulatedExchange",
    "SqlOrderStore",
    "SqlOrders",
]
