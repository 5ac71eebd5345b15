"""The rules of one subscription: its cursor, resets, merging, and when a connection is parked.

Promises: the positions of a subscription's events strictly rise, a bookmark never goes back, and `prev` names
the frame before. A frame at a position means that every matching event up to it was delivered, so a client
that resumes there gets each event once. A merged frame has the position of its last event. Never: reads a
clock or a socket.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any, Final

import msgspec

from holdfast.core.event import Position
from holdfast.core.event_kinds import EventClass
from holdfast.core.search import Query

BUFFER_BYTES: Final = 262_144
"""A connection with more unsent bytes is parked."""
BUFFER_FRAMES: Final = 1_000
"""A connection with more queued frames is parked, where frames are counted (`gateway.feed.outlets`)."""
STALL_SECONDS: Final = 30.0
"""A parked connection that takes no byte for this long is closed."""
OUTPUT_BYTES_MAX: Final = 32_768
"""The output that one merged frame carries at most."""
MERGE_SECONDS: Final = 0.25
MERGE_SECONDS_LEAST: Final = 0.05
MERGE_SECONDS_MOST: Final = 5.0


class StreamReset(StrEnum):
    """Why a subscription ended and must start over with a snapshot."""

    EPOCH = "epoch"
    """The history was replaced."""
    PRUNED = "pruned"
    """The position is older than the oldest event."""
    AHEAD = "ahead"
    """The position is beyond the end of the feed."""
    REVOKED = "revoked"
    """The principal may no longer read the channel."""
    GONE = "gone"
    """The object does not exist."""


class FeedBounds(msgspec.Struct, frozen=True):
    """The part of the feed that can be read: after `oldest`, up to `head`."""

    oldest: Position
    head: Position


def reset_reason(after: Position, bounds: FeedBounds) -> StreamReset | None:
    """Why a reader cannot continue after this position. None: it can."""
    if after.epoch != bounds.head.epoch:
        return StreamReset.EPOCH
    if after.offset > bounds.head.offset:
        return StreamReset.AHEAD
    if after.offset < bounds.oldest.offset:
        return StreamReset.PRUNED
    return None


# -- the cursor ------------------------------------------------------------------------------------


class StreamCursor(msgspec.Struct, frozen=True, gc=False):
    """Where a subscription is."""

    last: int
    """The offset of its last frame, which is `prev` of the next one."""
    read: int
    """Every event up to this offset was delivered or does not match."""


def start_at(offset: int) -> StreamCursor:
    """The cursor after `subscribed` at this offset."""
    return StreamCursor(offset, offset)


def after_frame(cursor: StreamCursor, offset: int) -> StreamCursor:
    """The cursor after the frame of an event at this offset. ValueError if the event is not a new one."""
    if offset <= cursor.read:
        raise ValueError(f"the event at {offset} was read before: the cursor is at {cursor.read}")
    return StreamCursor(offset, offset)


def bookmark_at(cursor: StreamCursor, boundary: int, *, live: bool = False) -> int | None:
    """The offset of a bookmark that is due now. `boundary` is the end of a transaction. None: the last frame
    is there already, or not all events up to the boundary were read. `live` is the bookmark that ends a
    snapshot or a replay. It is also due if nothing was replayed; then it is at the last frame."""
    least = cursor.last if live else cursor.last + 1
    return boundary if least <= boundary <= cursor.read else None


def after_bookmark(cursor: StreamCursor, offset: int) -> StreamCursor:
    """The cursor after a bookmark at this offset, which `bookmark_at` gave."""
    if not cursor.last <= offset <= cursor.read:
        raise ValueError(f"no bookmark at {offset} is due: the cursor is at {cursor}")
    return StreamCursor(offset, cursor.read)


def after_reading(cursor: StreamCursor, offset: int) -> StreamCursor:
    """The cursor after all events up to this offset were read, and none of the last ones matched."""
    return StreamCursor(cursor.last, max(cursor.read, offset))


# -- what a subscription receives ------------------------------------------------------------------


class StreamFilter(msgspec.Struct, frozen=True):
    """What a subscription receives of its topics."""

    topics: frozenset[str]
    projects: frozenset[str] | None = None
    """None: of all projects."""
    kinds: tuple[str, ...] = ()
    """Globs of kinds. Empty: all."""
    classes: frozenset[EventClass] = frozenset()
    """Empty: all."""
    query: Query | None = None
    """See `event_query.py`."""


def accepts_kind(of: StreamFilter, kind: str, event_class: EventClass) -> bool:
    """Whether the filter lets a kind through."""
    is_class = not of.classes or event_class in of.classes
    return is_class and (not of.kinds or any(fnmatchcase(kind, glob) for glob in of.kinds))


def accepts_project(of: StreamFilter, project: str | None) -> bool:
    """Whether the filter lets the events of a project through. None: of all projects together."""
    return of.projects is None or project is None or project in of.projects


# -- merging ---------------------------------------------------------------------------------------


class Mergeable(msgspec.Struct, frozen=True):
    """An informational event, or several that became one frame."""

    offset: int
    kind: str
    payload: dict[str, Any]
    merged: int = 1


_LATEST: Final[dict[str, tuple[str, ...]]] = {
    "task.metrics": ("task_id", "fence", "node"),
    "node.load": ("node",),
}
"""Kinds of which only the latest counts, and the fields that name its object."""


def merge(events: Sequence[Mergeable]) -> list[Mergeable]:
    """Fewer frames with the same content, in rising order of positions.

    A superseded report is left out: the later one has all of it. Output is joined only with its neighbour in
    the subscription. If it were joined over an event of another object, a client that stops at that event
    would resume behind output that it never got."""
    frames: list[Mergeable] = []
    for event in _latest(events):
        joined = _joined(frames[-1], event) if frames else None
        if joined is None:
            frames.append(event)
        else:
            frames[-1] = joined
    return frames


def _latest(events: Iterable[Mergeable]) -> list[Mergeable]:
    by_object: dict[Hashable, Mergeable] = {}
    for event in events:
        fields = _LATEST.get(event.kind)
        key: Hashable = event.offset
        if fields is not None:
            key = (event.kind, *(repr(event.payload.get(field)) for field in fields))
        before = by_object.pop(key, None)
        merged = event.merged + (before.merged if before else 0)
        by_object[key] = msgspec.structs.replace(event, merged=merged)
    return list(by_object.values())


def _joined(before: Mergeable, event: Mergeable) -> Mergeable | None:
    """Two contiguous chunks of output as one. None if they cannot be joined."""
    first, second = before.payload, event.payload
    is_output = before.kind == event.kind == "task.output"
    if not is_output or not _is_same_stream(first, second):
        return None
    size = first["size"] + second["size"]
    data = _joined_data(first, second)
    if size > OUTPUT_BYTES_MAX or data is None:
        return None
    payload = {**first, "size": size, **data}
    return Mergeable(event.offset, event.kind, payload, before.merged + event.merged)


def _is_same_stream(first: dict[str, Any], second: dict[str, Any]) -> bool:
    names = ("task_id", "fence", "stream")
    is_whole = all(
        isinstance(part.get(name), int) for part in (first, second) for name in ("start", "size")
    )
    if not is_whole or any(first.get(name) != second.get(name) for name in names):
        return False
    return bool(first["start"] + first["size"] == second["start"])


def _joined_data(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any] | None:
    """The text of both chunks. Chunks of which only one has text, and binary ones, stay apart."""
    if "data" in first and "data" in second:
        return {"data": first["data"] + second["data"]}
    has_data = any(
        name in part for part in (first, second) for name in ("data", "data_base64", "gap")
    )
    return None if has_data else {}


# -- flow control ----------------------------------------------------------------------------------


class FlowBounds(msgspec.Struct, frozen=True):
    """When a connection is parked, when it continues, and when it is closed."""

    high_bytes: int = BUFFER_BYTES
    low_bytes: int = BUFFER_BYTES // 4
    stall_seconds: float = STALL_SECONDS


class Flow(msgspec.Struct, frozen=True):
    """The flow of one connection. `since` is when its buffer last shrank."""

    is_parked: bool = False
    buffered: int = 0
    since: float = 0.0


def flow_after(flow: Flow, buffered: int, now: float, bounds: FlowBounds) -> Flow:
    """The flow after a look at the size of the buffer: full parks, drained to the low mark continues."""
    is_parked = buffered > (bounds.low_bytes if flow.is_parked else bounds.high_bytes)
    has_moved = buffered < flow.buffered or not (flow.is_parked and is_parked)
    return Flow(is_parked, buffered, now if has_moved else flow.since)


def is_stalled(flow: Flow, now: float, bounds: FlowBounds) -> bool:
    """Whether a parked connection has taken nothing for too long."""
    return flow.is_parked and now - flow.since >= bounds.stall_seconds
