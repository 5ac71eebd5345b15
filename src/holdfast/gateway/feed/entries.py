"""Decoded and encoded events, shared by all subscriptions of a gateway.

Promises: an event is encoded once; what differs between subscriptions (`id`, `channel`, `prev`) is a prefix.
The ring has a contiguous range of offsets, bounded in events and bytes.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from holdfast.core.event import Event
from holdfast.core.event_kinds import (
    EventClass,
    frame_of,
    payload_of,
    project_of,
    row_of,
    topics_of,
)
from holdfast.core.event_query import accepts_event
from holdfast.core.search import Query
from holdfast.core.subscription import Mergeable
from holdfast.core.wire import time_text

RING_EVENTS: Final = 100_000
RING_BYTES: Final = 67_108_864
_encode: Final = msgspec.json.Encoder().encode


class Entry:
    """One event, or several merged ones, ready to be sent."""

    __slots__ = (
        "_fields",
        "at",
        "body",
        "event_class",
        "frame",
        "kind",
        "offset",
        "payload",
        "project",
        "topics",
    )

    def __init__(self, event: Event) -> None:
        row = row_of(event)
        payload = payload_of(event)
        self.offset = event.position.offset
        self.kind = event.kind
        self.at = event.at
        self.event_class = row.event_class
        self.frame = frame_of(event)
        self.project = project_of(event)
        self.topics = topics_of(event)
        self.payload: dict[str, Any] | None = (
            payload if row.event_class is EventClass.INFORMATIONAL else None
        )
        """Kept for events that can be merged."""
        self._fields: dict[str, Any] | None = None
        self.body = _body(
            {
                "position": str(event.position),
                "at": time_text(event.at),
                "class": row.event_class.value,
                "kind": event.kind,
                "version": event.version,
                "payload": payload,
            }
        )

    def matches(self, query: Query) -> bool:
        """Whether the event passes a query. Its fields are decoded once for all queries."""
        if self._fields is None:
            self._fields = msgspec.json.decode(b"{" + self.body[1:])
        fields = self._fields
        return accepts_event(query, fields["payload"], self.project, fields["version"])

    @property
    def mergeable(self) -> Mergeable:
        return Mergeable(self.offset, self.kind, self.payload or {})

    def public(self, epoch: str) -> dict[str, Any]:
        """The frame without what belongs to a subscription."""
        fields: dict[str, Any] = msgspec.json.decode(b"{" + self.body[1:])
        return {"type": self.frame, "epoch": epoch, **fields}

    def merged(self, into: Mergeable) -> Entry:
        """This entry, which is the last of those that were merged, with the content of all."""
        if into.merged == 1:
            return self
        fields = msgspec.json.decode(b"{" + self.body[1:])
        entry = Entry.__new__(Entry)
        for name in Entry.__slots__:
            setattr(entry, name, getattr(self, name))
        entry.payload = into.payload
        entry.body = _body({**fields, "merged": into.merged, "payload": into.payload})
        return entry


def _body(fields: dict[str, Any]) -> bytes:
    """The part of a frame after what differs between subscriptions: `,"position":…}`."""
    return b"," + _encode(fields)[1:]


class Ring:
    """The latest entries of the feed."""

    __slots__ = ("_bytes", "_bytes_max", "_dropped", "_entries", "_events_max", "start")

    def __init__(
        self, start: int, *, events_max: int = RING_EVENTS, bytes_max: int = RING_BYTES
    ) -> None:
        self.start = start
        """The ring has every event after this offset."""
        self._entries: list[Entry | None] = []
        self._dropped = 0
        """The number of leading entries that are dropped. They are removed in large groups."""
        self._events_max = events_max
        self._bytes_max = bytes_max
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._entries) - self._dropped

    @property
    def end(self) -> int:
        return self.start + len(self)

    def append(self, entry: Entry) -> None:
        """Adds the next event. ValueError if it is not the next one."""
        if entry.offset != self.end + 1:
            raise ValueError(f"the event at {entry.offset} does not follow {self.end}")
        self._entries.append(entry)
        self._bytes += len(entry.body)
        while len(self) > self._events_max or self._bytes > self._bytes_max:
            self._drop_first()

    def covers(self, after: int) -> bool:
        """Whether the ring has every event after this offset."""
        return self.start <= after <= self.end

    def read(self, after: int, limit: int) -> list[Entry]:
        """Up to `limit` entries after an offset that the ring covers."""
        first = after - self.start + self._dropped
        return [entry for entry in self._entries[first : first + limit] if entry is not None]

    def _drop_first(self) -> None:
        entry = self._entries[self._dropped]
        self._entries[self._dropped] = None
        self._bytes -= len(entry.body) if entry is not None else 0
        self._dropped += 1
        self.start += 1
        if self._dropped * 2 > len(self._entries):
            del self._entries[: self._dropped]
            self._dropped = 0
