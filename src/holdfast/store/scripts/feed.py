"""Reads the feed: the events after a position, or an explicit reset.

Promises: offsets are contiguous; no event is skipped or repeated; a reader whose position is not available
gets a `Reset`, never an incomplete page.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum
from typing import Final, Protocol, TypeAlias

import msgspec

from holdfast.core.event import NEW_EVENTS, Event, NewEvent, Position
from holdfast.store.script import Script, call

_KIND_STARTS: Final = '["'
"""What stands before the kind of an event in a record: events are arrays, the kind is their first member."""
_slices: Final = msgspec.json.Decoder(list[msgspec.Raw])


ProjectCount: TypeAlias = tuple[str, str, int]
"""(queue, status, n) of one project."""
Count: TypeAlias = tuple[str, str, int, str, int]
"""(queue, type, priority, status, n)."""


class ResetReason(StrEnum):
    """Why a reader has to start over."""

    EPOCH = "epoch"
    """The history was replaced, for example by a restore."""
    PRUNED = "pruned"
    """The position is before the oldest retained record."""
    AHEAD = "ahead"
    """The position is after the head: the store lost its newest records, or the position belongs to another
    store."""


class Reset(msgspec.Struct, frozen=True):
    """The reader cannot continue from its position. It may continue from `oldest` or `head`."""

    reason: ResetReason
    oldest: Position
    head: Position


class Page(msgspec.Struct, frozen=True):
    """The events after the requested position, and the reader's new position."""

    events: list[Event]
    position: Position
    head: Position


class Skimmed(msgspec.Struct, frozen=True):
    """What a reader needs who wants no events: how far the feed goes, and whether some kinds occurred."""

    position: Position
    head: Position
    prefixes: frozenset[str]
    """Those of the given prefixes that a kind has. One too many is possible, one too few is not."""


class FeedDialect(Protocol):
    """The part of a dialect that reads and maintains the feed."""

    def assign_offsets(self) -> Script[bool]:
        """Assigns offsets to a batch of committed records. Returns whether none is left."""
        ...

    def update_counters(self) -> Script[bool]:
        """Adds a batch of records with offsets to the counters. Returns whether none is left."""
        ...

    def prune_feed(self, *, before: float, limit: int) -> Script[int]:
        """Deletes old, counted records and advances the oldest offset. Returns how many were deleted."""
        ...


def assign_all_offsets(dialect: FeedDialect) -> Script[None]:
    """Assigns offsets batch by batch. Each batch is a separate statement, so that a timeout does not undo
    earlier batches."""
    while not (yield from dialect.assign_offsets()):
        pass


def head(dialect: FeedDialect) -> Script[Position]:
    yield from assign_all_offsets(dialect)
    rows = yield call("feed_position")
    epoch, offset, _ = rows[0]
    return Position(epoch, offset)


def oldest() -> Script[Position]:
    """The position before the oldest event that is kept."""
    epoch, _, first = (yield call("feed_position"))[0]
    return Position(epoch, first - 1)


def read(dialect: FeedDialect, after: Position | None, limit: int) -> Script[Page | Reset]:
    """Up to `limit` events after the position. None reads from the oldest retained event."""
    yield from dialect.assign_offsets()
    rows = yield call("feed_position")
    epoch, top, oldest = rows[0]
    head_at, before_oldest = Position(epoch, top), Position(epoch, oldest - 1)
    if after is None:
        after = before_oldest
    reason = _reset_reason(after, epoch, top, oldest)
    if reason is not None:
        return Reset(reason, before_oldest, head_at)
    if after.offset == top:  # As nearly every look of a reader that waits.
        return Page([], after, head_at)
    records = yield call("read_records", after=after.offset, limit=limit)
    events: list[Event] = []
    expected = after.offset + 1
    for first_offset, events_count, events_json in records:
        if first_offset > expected:
            break
        events += _slice(epoch, first_offset, events_json, expected - first_offset, limit)
        expected = first_offset + events_count
    if records and not events:
        # The next record was pruned between the two reads.
        rows = yield call("feed_position")
        epoch, top, oldest = rows[0]
        return Reset(ResetReason.PRUNED, Position(epoch, oldest - 1), Position(epoch, top))
    events = events[:limit]
    return Page(events, events[-1].position if events else after, head_at)


def skim(
    dialect: FeedDialect, after: Position, limit: int, prefixes: Collection[str]
) -> Script[Skimmed | Reset]:
    """Passes up to `limit` events without decoding them."""
    yield from dialect.assign_offsets()
    rows = yield call("feed_position")
    epoch, top, oldest = rows[0]
    head_at = Position(epoch, top)
    reason = _reset_reason(after, epoch, top, oldest)
    if reason is not None:
        return Reset(reason, Position(epoch, oldest - 1), head_at)
    through = min(top, after.offset + limit)
    texts = {_KIND_STARTS + prefix: prefix for prefix in prefixes}
    found: frozenset[str] = frozenset()
    if texts and through > after.offset:
        rows = yield call("skim_records", after=after.offset, through=through, texts=sorted(texts))
        found = frozenset(texts[text] for (text,) in rows)
    return Skimmed(Position(epoch, through), head_at, found)


def _slice(epoch: str, first_offset: int, events_json: str, skip: int, limit: int) -> list[Event]:
    """The part of a record that fits on a page. Only that part is decoded, because a large record is read
    once for each of its pages."""
    encoded = _slices.decode(events_json)[skip : skip + limit]
    events = NEW_EVENTS.decode(b"[" + b",".join(map(bytes, encoded)) + b"]")
    return _events(epoch, first_offset + skip, events)


def _reset_reason(after: Position, epoch: str, top: int, oldest: int) -> ResetReason | None:
    if after.epoch != epoch:
        return ResetReason.EPOCH
    if after.offset > top:
        return ResetReason.AHEAD
    if after.offset < oldest - 1:
        return ResetReason.PRUNED
    return None


def _events(epoch: str, first_offset: int, events: list[NewEvent]) -> list[Event]:
    return [
        Event(
            Position(epoch, offset),
            event.kind,
            event.at,
            event.task_id,
            event.type,
            event.data,
            event.project,
            event.version,
        )
        for offset, event in enumerate(events, first_offset)
    ]


def history(dialect: FeedDialect, task_id: str) -> Script[list[Event]]:
    """The retained events of one task, oldest first."""
    rows = yield call("task_history", id=task_id)
    if not rows:
        return []
    yield from assign_all_offsets(dialect)
    position = yield call("feed_position")
    ids = sorted({int(part) for part in rows[0][0].split(",")[-100:] if part})
    records = yield call("records_by_id", ids=ids)
    events = []
    for first_offset, _, events_json in records:
        record = _events(position[0][0], first_offset, NEW_EVENTS.decode(events_json))
        events += [event for event in record if event.task_id == task_id]
    return events


def counters(dialect: FeedDialect) -> Script[tuple[bool, list[Count]]]:
    """Counts one more batch of the feed, then reads the counters. The first value says whether they are up to
    date with the head."""
    is_done = yield from count(dialect)
    rows = yield call("counters")
    return is_done, [tuple(row) for row in rows]


def count(dialect: FeedDialect) -> Script[bool]:
    """Adds a batch of the feed to the counters. Returns whether the head is reached."""
    is_numbered = yield from dialect.assign_offsets()
    is_counted = yield from dialect.update_counters()
    return is_numbered and is_counted


def prune(dialect: FeedDialect, *, before: float, limit: int) -> Script[int]:
    """Deletes old records and advances the oldest offset. Returns how many were deleted.

    Counts a batch first: only counted records may be deleted."""
    yield from count(dialect)
    return (yield from dialect.prune_feed(before=before, limit=limit))


def new_epoch(epoch: str) -> Script[Position]:
    """Starts a new epoch: every earlier position gets a `Reset`."""
    rows = yield call("new_epoch", epoch=epoch)
    return Position(rows[0][0], rows[0][1])
