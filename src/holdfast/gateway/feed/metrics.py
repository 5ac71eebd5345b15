"""Metrics of the live feed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from holdfast.gateway.feed.entries import Entry
from holdfast.metrics import Family, Kind, Meter, NullMeter

LATENCY_BUCKETS: Final = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
_SOURCES: Final = {
    "task": "engine",
    "checkpoint": "worker",
    "decision": "operator",
    "intervention": "operator",
    "conflict": "plugin",
    "node": "worker",
}
"""Who caused an event, by the first part of its kind; all other kinds are of operators."""
FAMILIES: Final = (
    Family("holdfast_ws_clients", Kind.GAUGE, "Connections of the live feed.", ("transport",)),
    Family("holdfast_ws_frames_total", Kind.COUNTER, "Event frames sent.", ("class",)),
    Family("holdfast_ws_merged_total", Kind.COUNTER, "Events that were merged into another frame."),
    Family("holdfast_ws_parked_total", Kind.COUNTER, "Times that a slow connection was parked."),
    Family("holdfast_ws_parked", Kind.GAUGE, "Connections that are parked."),
    Family(
        "holdfast_ws_closed_total", Kind.COUNTER, "Connections closed by the server.", ("code",)
    ),
    Family("holdfast_ws_buffer_bytes", Kind.GAUGE, "Bytes that clients have not taken."),
    Family(
        "holdfast_feed_resets_total", Kind.COUNTER, "Subscriptions that were reset.", ("reason",)
    ),
    Family("holdfast_feed_read_head", Kind.GAUGE, "The offset that the gateway has read."),
    Family(
        "holdfast_feed_falloff_seconds",
        Kind.GAUGE,
        "Time until the events are pruned that the slowest subscriber has not read.",
    ),
    Family("holdfast_feed_events_total", Kind.COUNTER, "Events that the gateway has read."),
    Family(
        "holdfast_sync_latency_seconds",
        Kind.HISTOGRAM,
        "From the time of an event to its write to the sockets.",
        ("source", "target", "state_type"),
        LATENCY_BUCKETS,
    ),
)


class FeedMeter:
    """Reports what the feed does."""

    def __init__(self, meter: Meter | None = None) -> None:
        self._meter: Meter = NullMeter() if meter is None else meter
        self._is_on = meter is not None
        self._clients = {"ws": 0, "sse": 0, "poll": 0}
        self._parked = 0

    def read(self, events: int, head: int) -> None:
        self._meter.count("holdfast_feed_events_total", events)
        self._meter.gauge("holdfast_feed_read_head", head)

    def sent(
        self, entries: Sequence[Entry], members: int, now: float, target: str, received: int
    ) -> None:
        """Entries were written to the members of a lane. The latency is that of the lane, once an entry."""
        if not self._is_on:
            return
        for entry in entries:
            name = entry.event_class.value
            self._meter.count("holdfast_ws_frames_total", members, **{"class": name})
            source = _SOURCES.get(entry.kind.partition(".")[0], "operator")
            self._meter.observe(
                "holdfast_sync_latency_seconds",
                max(0.0, now - entry.at),
                source=source,
                target=target,
                state_type=name,
            )
        self._meter.count("holdfast_ws_merged_total", max(0, received - len(entries)))

    def connected(self, transport: str, change: int) -> None:
        self._clients[transport] += change
        self._meter.gauge("holdfast_ws_clients", self._clients[transport], transport=transport)

    def parked(self, change: int) -> None:
        self._parked += change
        self._meter.gauge("holdfast_ws_parked", self._parked)
        if change > 0:
            self._meter.count("holdfast_ws_parked_total", change)

    def closed(self, code: int) -> None:
        self._meter.count("holdfast_ws_closed_total", code=str(code))

    def reset(self, reason: str) -> None:
        self._meter.count("holdfast_feed_resets_total", reason=reason)

    def falloff(self, seconds: float) -> None:
        self._meter.gauge("holdfast_feed_falloff_seconds", seconds)

    def buffered(self, bytes_count: int) -> None:
        self._meter.gauge("holdfast_ws_buffer_bytes", bytes_count)
