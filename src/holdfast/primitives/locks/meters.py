"""The metrics of locks. No label names a resource: their number is unbounded."""

from __future__ import annotations

from typing import Final

from holdfast.metrics import Family, Kind

ACQUIRE: Final = "holdfast_lock_acquire_total"
WAIT: Final = "holdfast_lock_wait_seconds"
HOLD: Final = "holdfast_lock_hold_seconds"
RENEW: Final = "holdfast_lock_renew_seconds"
RENEW_FAILURES: Final = "holdfast_lock_renew_failures_total"
LOST: Final = "holdfast_lock_lost_total"
REJECTIONS: Final = "holdfast_lock_fencing_rejections_total"
REVOKED: Final = "holdfast_lock_revoked_total"
DEPTH: Final = "holdfast_lock_queue_depth"
OLDEST: Final = "holdfast_lock_oldest_waiter_seconds"

FAMILIES: Final = (
    Family(
        ACQUIRE,
        Kind.COUNTER,
        "Requests for a lock, by how they ended: granted, timeout, cancelled, error.",
        ("outcome",),
    ),
    Family(WAIT, Kind.HISTOGRAM, "Time from the request to the grant."),
    Family(HOLD, Kind.HISTOGRAM, "Time from the grant to its end."),
    Family(RENEW, Kind.HISTOGRAM, "Time that a renewal took."),
    Family(RENEW_FAILURES, Kind.COUNTER, "Renewals that failed."),
    Family(LOST, Kind.COUNTER, "Leases that ended before their holder released them.", ("reason",)),
    Family(
        REJECTIONS, Kind.COUNTER, "Writes refused because of an old fence. Investigate each one."
    ),
    Family(REVOKED, Kind.COUNTER, "Leases revoked by an operator."),
    Family(DEPTH, Kind.GAUGE, "Waiting claims, over all resources."),
    Family(OLDEST, Kind.GAUGE, "How long the oldest claim has waited."),
)
