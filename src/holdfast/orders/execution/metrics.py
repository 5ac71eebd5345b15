"""What the execution loop measures."""

from __future__ import annotations

from typing import Final

from holdfast.metrics import Family, Kind

_C, _G, _H = Kind.COUNTER, Kind.GAUGE, Kind.HISTOGRAM
FAMILIES: Final = (
    Family("holdfast_execution_orders_placed_total", _C, "Orders whose intent was written."),
    Family("holdfast_execution_orders_filled_total", _C, "Orders that were filled to the end."),
    Family("holdfast_execution_orders_canceled_total", _C, "Orders that ended cancelled."),
    Family("holdfast_execution_orders_rejected_total", _C, "Orders that the exchange rejected."),
    Family("holdfast_execution_orders_never_arrived_total", _C, "Intents without an order."),
    Family("holdfast_execution_orders_gone_total", _C, "Accepted, and no longer known there."),
    Family("holdfast_execution_adapter_errors_total", _C, "Calls in which it raised.", ("call",)),
    Family("holdfast_execution_replayed_total", _C, "Requests answered by their idempotency key."),
    Family("holdfast_execution_refused_total", _C, "Orders that a limit refused."),
    Family("holdfast_execution_timeouts_total", _C, "Calls without a reply.", ("call",)),
    Family("holdfast_execution_fill_messages_total", _C, "Fill messages.", ("news",)),
    Family("holdfast_execution_freeze_events_total", _C, "Freezes, each epoch once."),
    Family("holdfast_execution_freeze_seconds", _H, "From a freeze until nothing was open."),
    Family("holdfast_execution_alerts_total", _C, "Alerts to the hook.", ("outcome",)),
    Family("holdfast_execution_differences_total", _C, "Found by reconciling.", ("kind",)),
    Family("holdfast_execution_open_orders", _G, "Orders that may still trade."),
    Family("holdfast_execution_frozen", _G, "1 while frozen."),
)
