"""Telling somebody that trading was frozen.

Promises: each freeze is told at least once, again after a restart in a frozen state; the hook gets a bounded
number of tries. Never: lets a broken hook stop the freeze itself.
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
    """A freeze. The epoch names it: the same epoch told twice is one freeze."""

    epoch: int
    reason: str
    at: float
    open_orders: int
    """How many of ours were not closed yet when this was sent."""


AlertHook: TypeAlias = Callable[[Alert], None]


def deliver(alert: Alert, hook: AlertHook | None, *, clock: BlockingClock, meter: Meter) -> bool:
    """Tells the hook; False when it would not be told."""
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
            retryable=lambda error: True,  # whatever the hook is, it may be better next time
            logger=log,
            deterministic_clock=clock,
        )
    except Exception:  # the freeze must go on
        log.exception("[ALERT] nobody could be told of the freeze in epoch %d", alert.epoch)
        meter.count("holdfast_execution_alerts_total", outcome="failed")
        return False
    meter.count("holdfast_execution_alerts_total", outcome="sent")
    return True
