"""Telling somebody that trading was frozen.

Promises: each freeze is told at least once, again after a restart in a frozen state; the hook gets a bounded
number of tries. Never: lets a broken hook stop the freeze itself.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, TypeAlias

import msgspec

from holdfast.orders.pause import Pause
from holdfast.primitives.metrics import Meter

log = logging.getLogger("holdfast.orders")
ATTEMPTS: Final = 3
PAUSE_SECONDS: Final = 0.2


class Alert(msgspec.Struct, frozen=True, kw_only=True):
    """A freeze. The epoch names it: the same epoch told twice is one freeze."""

    epoch: int
    reason: str
    at: float
    open_orders: int
    """How many of ours were not closed yet when this was sent."""


AlertHook: TypeAlias = Callable[[Alert], None]


def deliver(alert: Alert, hook: AlertHook | None, *, pause: Pause, meter: Meter) -> bool:
    """Tells the hook; False when it would not be told."""
    log.warning(
        "[ALERT] frozen in epoch %d: %s (%d orders still open)",
        alert.epoch,
        alert.reason,
        alert.open_orders,
    )
    if hook is None:
        return True
    for attempt in range(1, ATTEMPTS + 1):
        try:
            hook(alert)
        except Exception as error:  # whatever the hook is, the freeze must go on
            log.warning("[ALERT] the hook failed, try %d of %d: %r", attempt, ATTEMPTS, error)
            if attempt < ATTEMPTS:
                pause(PAUSE_SECONDS * 2 ** (attempt - 1))
        else:
            meter.count("holdfast_execution_alerts_total", outcome="sent")
            return True
    meter.count("holdfast_execution_alerts_total", outcome="failed")
    return False
