"""Metrics of the execution loop."""

from __future__ import annotations

from typing import Final

from holdfast.metrics import Family, Kind

__all__ = ["FAMILIES"]

_C, _G, _H = Kind.COUNTER, Kind.GAUGE, Kind.HISTOGRAM
FAMILIES: Final = (
    Family("holdfast_execution_orders_placed_total", _C, "Orders with a durable intent."),
    Family("holdfast_execution_orders_filled_total", _C, "Orders that were filled completely."),
    Family("holdfast_execution_orders_canceled_total", _C, "Orders that were cancelled."),
    Family("holdfast_execution_orders_rejected_total", _C, "Orders that the exchange rejected."),
    Family(
        "holdfast_execution_orders_never_arrived_total",
        _C,
        "Intents that never arrived at the exchange.",
    ),
    Family(
        "holdfast_execution_orders_gone_total",
        _C,
        "Accepted orders that the exchange no longer knows.",
    ),
    Family(
        "holdfast_execution_adapter_errors_total",
        _C,
        "Calls in which the exchange adapter raised.",
        ("call",),
    ),
    Family("holdfast_execution_replayed_total", _C, "Requests answered by their idempotency key."),
    Family("holdfast_execution_refused_total", _C, "Orders that were refused by a risk limit."),
    Family("holdfast_execution_timeouts_total", _C, "Calls without a reply.", ("call",)),
    Family("holdfast_execution_fill_messages_total", _C, "Fill messages received.", ("news",)),
    Family("holdfast_execution_freeze_events_total", _C, "Freezes; one per epoch."),
    Family("holdfast_execution_freeze_seconds", _H, "Time from a freeze until no order was open."),
    Family("holdfast_execution_alerts_total", _C, "Alerts, by outcome of the hook.", ("outcome",)),
    Family(
        "holdfast_execution_differences_total",
        _C,
        "Differences found by reconciling, by kind.",
        ("kind",),
    ),
    Family("holdfast_execution_open_orders", _G, "Orders that may still trade."),
    Family("holdfast_execution_frozen", _G, "1 while frozen."),
)
