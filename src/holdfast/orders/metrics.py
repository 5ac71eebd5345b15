"""Metrics of the order stores."""

from __future__ import annotations

from typing import Final

from holdfast.metrics import Family, Kind

__all__ = ["FAMILIES"]

IDEMPOTENCY: Final = "holdfast_orders_idempotency_total"
COMMANDS: Final = "holdfast_orders_commands_total"
LATE_FILLS: Final = "holdfast_orders_late_fills_total"
SNAPSHOT_SAVED_AT: Final = "holdfast_orders_snapshot_saved_at"
SNAPSHOT_ORDER_COUNT: Final = "holdfast_orders_snapshot_order_count"
SNAPSHOT_AGE: Final = "holdfast_orders_snapshot_age_seconds"
SNAPSHOT_BYTES: Final = "holdfast_orders_snapshot_bytes"
SNAPSHOT_SECONDS: Final = "holdfast_orders_snapshot_seconds"
SNAPSHOT_FAILURES: Final = "holdfast_orders_snapshot_failures_total"
LOG_BYTES: Final = "holdfast_orders_log_bytes"
SYNC_SECONDS: Final = "holdfast_orders_sync_seconds"
BATCHES: Final = "holdfast_orders_batches_total"
RECORDS: Final = "holdfast_orders_records_total"
RECOVERY_GAP: Final = "holdfast_orders_recovery_gap_records"
TORN_BYTES: Final = "holdfast_orders_recovery_torn_bytes"
VIEW_BEHIND: Final = "holdfast_orders_view_behind"

FAMILIES: Final = (
    Family(
        IDEMPOTENCY,
        Kind.COUNTER,
        "Calls with an idempotency key: hit (answered again), in_flight (a hit whose first call was not "
        "durable yet), miss, conflict (the key of another request).",
        ("operation", "outcome"),
    ),
    Family(
        COMMANDS,
        Kind.COUNTER,
        "Calls by outcome: ok, or an error's code.",
        ("operation", "outcome"),
    ),
    Family(LATE_FILLS, Kind.COUNTER, "Fill reports without news, which were ignored."),
    Family(SNAPSHOT_SAVED_AT, Kind.GAUGE, "When the latest snapshot was saved, epoch seconds."),
    Family(SNAPSHOT_ORDER_COUNT, Kind.GAUGE, "Orders in the latest snapshot."),
    Family(SNAPSHOT_AGE, Kind.GAUGE, "Age of the latest snapshot at the latest write."),
    Family(SNAPSHOT_BYTES, Kind.GAUGE, "Size of the latest snapshot."),
    Family(SNAPSHOT_SECONDS, Kind.HISTOGRAM, "Duration of snapshots."),
    Family(SNAPSHOT_FAILURES, Kind.COUNTER, "Snapshots that could not be saved."),
    Family(LOG_BYTES, Kind.GAUGE, "Bytes of the log since the latest snapshot."),
    Family(SYNC_SECONDS, Kind.HISTOGRAM, "Duration of log writes, including their sync."),
    Family(BATCHES, Kind.COUNTER, "Syncs of the log."),
    Family(RECORDS, Kind.COUNTER, "Records that were made durable; by batches: callers in a sync."),
    Family(
        RECOVERY_GAP, Kind.GAUGE, "Records between the snapshot and the end at the latest start."
    ),
    Family(TORN_BYTES, Kind.GAUGE, "Bytes of an incomplete write, removed at the latest start."),
    Family(VIEW_BEHIND, Kind.GAUGE, "1 while the key-value view is behind the log."),
)
