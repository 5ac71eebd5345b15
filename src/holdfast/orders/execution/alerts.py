"""Alerts about a freeze of trading.

Promises: the hook is called at least once for each freeze, and again after a restart in a frozen state.
The number of attempts is bounded.
Never: lets a failing hook stop the freeze.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, TypeAlias

import msgspec

from holdfast.clock import BlockingClock
from holdfast.metrics import Meter
from holdfast.primitives.retry import retry_with_log

log = logging.getLogger("holdfast.orders")
ATTEMPTS: Final = 3
PAUSE_MS: Final = 200.0


class Alert(msgspec.Struct, frozen=True, kw_only=True):
    """A freeze. The epoch identifies it: two alerts with the same epoch are one freeze."""

    epoch: int
    reason: str
    at: float
    open_orders: int
    """How many orders were still open when the alert was sent."""


AlertHook: TypeAlias = Callable[[Alert], None]


def deliver(alert: Alert, hook: AlertHook | None, *, clock: BlockingClock, meter: Meter) -> bool:
    """Calls the hook. False when every attempt failed."""
    log.warning(
        "[ALERT] frozen in epoch %d: %s (%d orders still open)",
        alert.epoch,
        alert.reason,
        alert.open_orders,
    )
    if hook is None:
        return True
    try:
        retry_with_log(
            lambda: hook(alert),
            attempts=ATTEMPTS,
            base_ms=PAUSE_MS,
            idem_key=f"alert:{alert.epoch}",
            retryable=lambda error: True,  # any error of a hook may be transient
            logger=log,
            deterministic_clock=clock,
        )
    except Exception:  # the freeze must go on
        log.exception("[ALERT] the alert hook failed for the freeze in epoch %d", alert.epoch)
        meter.count("holdfast_execution_alerts_total", outcome="failed")
        return False
    meter.count("holdfast_execution_alerts_total", outcome="sent")
    return True
