"""What the order store and the execution loop count, as ways of recovery that a campaign must meet."""

from __future__ import annotations

from typing import Final

from holdfast.orders import store_metrics as measured
from holdfast.sim.trace import Trace

COUNTED: Final = {
    "holdfast_execution_orders_never_arrived_total": "orders-never-arrived",
    "holdfast_execution_replayed_total": "orders-replayed",
    measured.LATE_FILLS: "orders-late-fill",
}
FOUND: Final = {
    measured.RECOVERY_GAP: "orders-recovered-from-log",
    measured.TORN_BYTES: "orders-recovered-torn-tail",
    measured.SNAPSHOT_ORDER_COUNT: "orders-recovered-from-snapshot",
}


class Noticing:
    """A meter (see `holdfast.primitives.metrics`) for the trace."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self.is_opening = True
        """Gauges tell of recovery only while a store opens."""

    def count(self, name: str, amount: float = 1.0, /, **labels: str) -> None:
        if name in COUNTED:
            self._trace.sometimes(COUNTED[name])
        elif name == "holdfast_execution_differences_total":
            self._trace.sometimes(f"orders-found-{labels['kind']}")
        elif name == "holdfast_execution_fill_messages_total" and labels["news"] == "no":
            self._trace.sometimes("orders-old-fill")

    def gauge(self, name: str, value: float, /, **labels: str) -> None:
        if self.is_opening and value and name in FOUND:
            self._trace.sometimes(FOUND[name])

    def observe(self, name: str, seconds: float, /, **labels: str) -> None:
        return
