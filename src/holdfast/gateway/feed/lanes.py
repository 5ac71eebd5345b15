"""Lanes: subscriptions that receive the same frames.

A lane has the subscriptions with one filter and one form of frames. Those of them whose last frame is the
same are a cohort: the next frames have the same bytes for all members, so they are encoded once. After a
frame all cohorts of the lane become one.
Promises: a member gets every matching event once and in order. A member that leaves has a cursor from which
it can be caught up.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from holdfast.core.event_kinds import EventClass
from holdfast.core.subscription import (
    StreamCursor,
    StreamFilter,
    accepts_kind,
    accepts_project,
    merge,
)
from holdfast.gateway.feed.entries import Entry
from holdfast.gateway.feed.frames import Style
from holdfast.gateway.feed.ports import Outlet

log = logging.getLogger("holdfast.feed")
CHUNK_BYTES: Final = 65_536
"""The bytes that are written to a client before its buffer is looked at again."""
WAITING_MAX: Final = 1_000
"""Informational frames of a lane that wait to be merged. With more they are sent at once."""
NEVER: Final = float("inf")


class Matcher:
    """A filter that remembers its answers by kind."""

    __slots__ = ("_filter", "_kinds")

    def __init__(self, of: StreamFilter) -> None:
        self._filter = of
        self._kinds: dict[str, bool] = {}

    def accepts(self, entry: Entry) -> bool:
        """Whether an entry of one of the topics passes the filter."""
        is_accepted = self._kinds.get(entry.kind)
        if is_accepted is None:
            is_accepted = accepts_kind(self._filter, entry.kind, entry.event_class)
            self._kinds[entry.kind] = is_accepted
        if not (is_accepted and accepts_project(self._filter, entry.project)):
            return False
        query = self._filter.query
        return query is None or entry.matches(query)

    def matches(self, entry: Entry) -> bool:
        """Like `accepts`, for an entry of any topic."""
        return not self._filter.topics.isdisjoint(entry.topics) and self.accepts(entry)


class LaneKey(NamedTuple):
    """Subscriptions with the same key receive the same frames."""

    filter: StreamFilter
    id: str
    channel: str
    transport: str
    """Decides how frames are wrapped."""
    merge_seconds: float


class Member:
    """One live subscription, as a lane sees it."""

    __slots__ = ("cohort", "cursor", "is_open", "outlet")

    def __init__(self, outlet: Outlet, cursor: StreamCursor) -> None:
        self.outlet = outlet
        self.cursor = cursor
        """Where it is while it is in no lane."""
        self.cohort: Cohort | None = None
        self.is_open = True


class Cohort:
    """Members whose last frame is the same."""

    __slots__ = ("last", "members")

    def __init__(self, last: int) -> None:
        self.last = last
        self.members: dict[Member, None] = {}
        """In the order in which they joined."""

    def write(self, data: bytes) -> None:
        for member in self.members:
            try:
                member.outlet.write(data)
            except Exception:
                log.exception("a subscriber cannot be written to")

    def absorb(self, other: Cohort) -> None:
        for member in other.members:
            member.cohort = self
        self.members |= other.members


class Chunk(NamedTuple):
    """Frames that are written together: those after the first are the same for all cohorts."""

    first: Entry
    rest: bytes
    last: int
    frames: int


class Lane:
    """The subscriptions with one key."""

    __slots__ = (
        "_waiting",
        "_waiting_since",
        "accepts",
        "cohorts",
        "inbox",
        "key",
        "sent_at",
        "style",
    )

    def __init__(self, key: LaneKey, style: Style, now: float) -> None:
        self.key = key
        self.style = style
        self.cohorts: list[Cohort] = []
        self.inbox: list[Entry] = []
        """Entries of the current page that this lane receives."""
        self._waiting: list[Entry] = []
        """Informational entries that wait to be merged with later ones."""
        self._waiting_since = NEVER
        self.sent_at = now
        self.accepts = Matcher(key.filter).accepts

    def __len__(self) -> int:
        return sum(len(cohort.members) for cohort in self.cohorts)

    @property
    def due_at(self) -> float:
        """When the waiting entries must be sent."""
        return self._waiting_since + self.key.merge_seconds

    def take(self, now: float, *, all: bool = False) -> list[Entry]:
        """The entries to send now, merged. The last informational ones stay while they may wait."""
        entries = self._waiting + self.inbox
        self.inbox = []
        is_due = all or now >= self.due_at or len(entries) > WAITING_MAX
        stay = 0 if is_due else _informational_tail(entries)
        split = len(entries) - stay
        self._waiting, ready = entries[split:], entries[:split]
        if not self._waiting:
            self._waiting_since = NEVER
        elif ready or self._waiting_since == NEVER:
            self._waiting_since = now
        return merged_entries(ready)

    def join(self, member: Member) -> None:
        """Adds a member that has read all that the lane has sent. The lane has nothing waiting."""
        last = member.cursor.last
        cohort = next((cohort for cohort in self.cohorts if cohort.last == last), None)
        if cohort is None:
            cohort = Cohort(last)
            self.cohorts.append(cohort)
        cohort.members[member] = None
        member.cohort = cohort

    def leave(self, member: Member) -> None:
        """Removes a member and notes where it is."""
        cohort = member.cohort
        if cohort is None:
            return
        cohort.members.pop(member, None)
        member.cohort = None
        member.cursor = StreamCursor(cohort.last, cohort.last)
        if not cohort.members:
            self.cohorts.remove(cohort)

    def send(self, entries: Sequence[Entry], now: float, after_write: Callable[[], None]) -> None:
        """Writes the entries to all members. `after_write` removes the members whose buffer is full."""
        if not entries:
            return
        self.sent_at = now
        for chunk in chunks(self.style, entries):
            for cohort in self.cohorts:
                cohort.write(self.style.event(chunk.first, cohort.last) + chunk.rest)
            self._unite(chunk.last)
            after_write()

    def send_bookmark(self, boundary: int, now: float, after_write: Callable[[], None]) -> None:
        """Writes a bookmark to the members whose last frame is before the boundary."""
        self.sent_at = now
        behind = [cohort for cohort in self.cohorts if cohort.last < boundary]
        for cohort in behind:
            cohort.write(self.style.bookmark(boundary, cohort.last))
        if behind:
            self._unite(boundary)
        after_write()

    def _unite(self, last: int) -> None:
        """All cohorts have the same last frame now."""
        if len(self.cohorts) > 1:
            largest = max(self.cohorts, key=lambda cohort: len(cohort.members))
            for cohort in self.cohorts:
                if cohort is not largest:
                    largest.absorb(cohort)
            self.cohorts = [largest]
        for cohort in self.cohorts:
            cohort.last = last


def _informational_tail(entries: Sequence[Entry]) -> int:
    """How many entries at the end may wait."""
    count = 0
    for entry in reversed(entries):
        if entry.event_class is not EventClass.INFORMATIONAL:
            break
        count += 1
    return count


def merged_entries(entries: list[Entry]) -> list[Entry]:
    """The entries with each run of informational ones merged."""
    merged: list[Entry] = []
    run: list[Entry] = []
    for entry in entries:
        if entry.event_class is EventClass.INFORMATIONAL:
            run.append(entry)
        else:
            if run:
                merged += _merge_run(run)
                run = []
            merged.append(entry)
    return merged + _merge_run(run) if run else merged


def _merge_run(run: list[Entry]) -> list[Entry]:
    by_offset = {entry.offset: entry for entry in run}
    groups = merge([entry.mergeable for entry in run])
    return [by_offset[group.offset].merged(group) for group in groups]


def chunks(style: Style, entries: Sequence[Entry]) -> list[Chunk]:
    """The frames of the entries in chunks of about `CHUNK_BYTES`."""
    parts: list[Chunk] = []
    first: Entry | None = None
    rest: list[bytes] = []
    size = last = 0
    for entry in entries:
        if first is None:
            first, size = entry, len(entry.body)
        else:
            rest.append(style.event(entry, last))
            size += len(rest[-1])
        last = entry.offset
        if size >= CHUNK_BYTES:
            parts.append(Chunk(first, b"".join(rest), last, len(rest) + 1))
            first, rest = None, []
    if first is not None:
        parts.append(Chunk(first, b"".join(rest), last, len(rest) + 1))
    return parts
