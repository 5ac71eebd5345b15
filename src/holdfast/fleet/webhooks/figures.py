"""What is measured of webhooks."""

from __future__ import annotations

from typing import Final

from holdfast.core.fleet.model import WebhookDirection
from holdfast.metrics import Family, Kind, Meter

DELIVERIES: Final = "holdfast_webhook_deliveries_total"
FAMILIES: Final = (
    Family(
        DELIVERIES,
        Kind.COUNTER,
        "Messages of webhooks. In: accepted, refused. Out, each attempt: delivered, failed (tried again), "
        "given_up, gone (the endpoint was disabled).",
        ("direction", "outcome"),
    ),
)


def count_in(meter: Meter, *, is_accepted: bool) -> None:
    """A signed request."""
    outcome = "accepted" if is_accepted else "refused"
    meter.count(DELIVERIES, direction=WebhookDirection.IN.value, outcome=outcome)


def count_out(meter: Meter, outcome: str) -> None:
    """An attempt to deliver a message."""
    meter.count(DELIVERIES, direction=WebhookDirection.OUT.value, outcome=outcome)
