"""Counters of the order store and the execution loop as recovery paths that a campaign must take."""

from __future__ import annotations

from typing import Final

from holdfast.orders import metrics as measured
from holdfast.sim.trace import Trace

COUNTED: Final = {
    "holdfast_execution_orders_never_arrived_total": "orders-never-arrived",
    "holdfast_execution_replayed_total": "orders-replayed",
    "holdfast_execution_orders_gone_total": "orders-gone",
    "holdfast_execution_adapter_errors_total": "orders-adapter-raised",
    measured.LATE_FILLS: "orders-late-fill",
}
FOUND: Final = {
    measured.RECOVERY_GAP: "orders-recovered-from-log",
    measured.TORN_BYTES: "orders-recovered-torn-tail",
    measured.SNAPSHOT_ORDER_COUNT: "orders-recovered-from-snapshot",
}


class Noticing:
    """A meter (see `holdfast.metrics`) for the trace."""

    def __init__(self, trace: Trace, given_up: list[str] | None = None) -> None:
        self._trace = trace
        self._given_up = given_up
        self.is_opening = True
        """Gauges show a recovery only while a store opens."""

    def count(self, name: str, amount: float = 1.0, /, **labels: str) -> None:
        if name in COUNTED:
            self._trace.sometimes(COUNTED[name])
        elif name == "holdfast_execution_differences_total":
            self._trace.sometimes(f"orders-found-{labels['kind']}")
            if labels["kind"] == "open_there" and self._given_up is not None:
                self._given_up.append("an order that the exchange had open was taken for ended")
        elif name == "holdfast_execution_fill_messages_total" and labels["news"] == "no":
            self._trace.sometimes("orders-old-fill")

    def gauge(self, name: str, value: float, /, **labels: str) -> None:
        if self.is_opening and value and name in FOUND:
            self._trace.sometimes(FOUND[name])

    def observe(self, name: str, seconds: float, /, **labels: str) -> None:
        return
