"""Reading the feed: everything after a position, or an explicit reset.

Promises: contiguous offsets, nothing twice, nothing skipped, never a part without saying so.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, Protocol, TypeAlias

import msgspec

from holdfast.core.event import NEW_EVENTS, Event, NewEvent, Position
from holdfast.store.script import Script, call

_slices: Final = msgspec.json.Decoder(list[msgspec.Raw])


Count: TypeAlias = tuple[str, str, int, str, int]
"""(queue, type, priority, status, n)."""


class ResetReason(StrEnum):
    """Why a reader must start over."""

    EPOCH = "epoch"
    """The history was replaced, e.g. by a restore."""
    PRUNED = "pruned"
    """The position is older than what is kept."""
    AHEAD = "ahead"
    """The position lies after the end: the store lost its tail, or it was never this store's."""


class Reset(msgspec.Struct, frozen=True):
    """The reader cannot go on from its position. It may go on from `oldest` or `head`."""

    reason: ResetReason
    oldest: Position
    head: Position


class Page(msgspec.Struct, frozen=True):
    """Events right after the position asked for, and where the reader is now."""

    events: list[Event]
    position: Position
    head: Position


class FeedDialect(Protocol):
    def assign_offsets(self) -> Script[bool]:
        """Gives offsets to a batch of what has been committed; whether nothing is left."""
        ...

    def update_counters(self) -> Script[bool]:
        """Adds what a batch of the numbered records says to the counters; whether nothing is left."""
        ...

    def prune_feed(self, *, before: float, limit: int) -> Script[int]:
        """Removes counted records, and records where the feed begins now. Returns how many."""
        ...


def assign_all_offsets(dialect: FeedDialect) -> Script[None]:
    """Batch by batch, each in a separate statement, so a time limit does not undo earlier batches."""
    while not (yield from dialect.assign_offsets()):
        pass


def head(dialect: FeedDialect) -> Script[Position]:
    yield from assign_all_offsets(dialect)
    rows = yield call("feed_position")
    epoch, offset, _ = rows[0]
    return Position(epoch, offset)


def read(dialect: FeedDialect, after: Position | None, limit: int) -> Script[Page | Reset]:
    """Up to `limit` events after the position; None reads from the oldest that is kept."""
    yield from dialect.assign_offsets()
    rows = yield call("feed_position")
    epoch, top, oldest = rows[0]
    head_at, before_oldest = Position(epoch, top), Position(epoch, oldest - 1)
    if after is None:
        after = before_oldest
    reason = _reset_reason(after, epoch, top, oldest)
    if reason is not None:
        return Reset(reason, before_oldest, head_at)
    records = yield call("read_records", after=after.offset, limit=limit)
    events: list[Event] = []
    expected = after.offset + 1
    for first_offset, events_count, events_json in records:
        if first_offset > expected:
            break
        events += _slice(epoch, first_offset, events_json, expected - first_offset, limit)
        expected = first_offset + events_count
    if records and not events:
        # What comes next was pruned while this was on its way.
        rows = yield call("feed_position")
        epoch, top, oldest = rows[0]
        return Reset(ResetReason.PRUNED, Position(epoch, oldest - 1), Position(epoch, top))
    events = events[:limit]
    return Page(events, events[-1].position if events else after, head_at)


def _slice(epoch: str, first_offset: int, events_json: str, skip: int, limit: int) -> list[Event]:
    """The part of a record that a page may take. The facts of a large one are taken apart only where they
    are wanted: it is read once for each page."""
    wanted = _slices.decode(events_json)[skip : skip + limit]
    events = NEW_EVENTS.decode(b"[" + b",".join(map(bytes, wanted)) + b"]")
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
        Event(Position(epoch, offset), fact.kind, fact.at, fact.task_id, fact.type, fact.data)
        for offset, fact in enumerate(events, first_offset)
    ]


def history(dialect: FeedDialect, task_id: str) -> Script[list[Event]]:
    """What happened to one task, oldest first, as far as the feed is kept."""
    rows = yield call("task_history", id=task_id)
    if not rows:
        return []
    yield from assign_all_offsets(dialect)
    position = yield call("feed_position")
    ids = sorted({int(part) for part in rows[0][0].split(",")[-100:] if part})
    records = yield call("records_by_id", ids=ids)
    events = []
    for first_offset, _, events_json in records:
        found = _events(position[0][0], first_offset, NEW_EVENTS.decode(events_json))
        events += [event for event in found if event.task_id == task_id]
    return events


def counters(dialect: FeedDialect) -> Script[tuple[bool, list[Count]]]:
    """How many tasks there are of each kind, after one more batch of the feed was counted; whether that was
    the last one."""
    is_done = yield from count(dialect)
    rows = yield call("counters")
    return is_done, [tuple(row) for row in rows]


def count(dialect: FeedDialect) -> Script[bool]:
    """Folds a batch of the feed into the counters; whether its head is reached."""
    is_numbered = yield from dialect.assign_offsets()
    is_folded = yield from dialect.update_counters()
    return is_numbered and is_folded


def prune(dialect: FeedDialect, *, before: float, limit: int) -> Script[int]:
    """Forgets old records, and says from where on the feed is whole."""
    yield from count(dialect)
    return (yield from dialect.prune_feed(before=before, limit=limit))


def new_epoch(epoch: str) -> Script[Position]:
    """Readers of any position from before must start over."""
    rows = yield call("new_epoch", epoch=epoch)
    return Position(rows[0][0], rows[0][1])
