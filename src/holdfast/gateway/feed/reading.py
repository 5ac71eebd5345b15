"""Reads old events for one subscriber: from the ring, from the history of a task, or from the store."""

from __future__ import annotations

from typing import TypeAlias

from holdfast.core.subscription import StreamReset, reset_reason
from holdfast.gateway.feed.broadcaster import PAGE_EVENTS, Broadcaster
from holdfast.gateway.feed.entries import Entry
from holdfast.store.store import Reset

Part: TypeAlias = tuple[list[Entry], int]
"""Entries, and the offset up to which they are complete."""


async def next_page(
    broadcaster: Broadcaster, after: int, task_id: str | None
) -> Part | StreamReset:
    """The entries after an offset that is before the head of the broadcaster. With `task_id`, those of other
    tasks may be left out. Raises StoreUnavailable."""
    if broadcaster.ring.covers(after):
        entries = broadcaster.ring.read(after, PAGE_EVENTS)
        return entries, entries[-1].offset
    async with broadcaster.store_slots:
        if task_id is not None:
            part = await _history(broadcaster, after, task_id)
            if part is not None:
                return part
        page = await broadcaster.source.read(broadcaster.position(after), PAGE_EVENTS)
        if isinstance(page, Reset):
            return StreamReset(page.reason.value)
        entries = await broadcaster.encoded(page.events)
        return entries, entries[-1].offset if entries else after


async def _history(broadcaster: Broadcaster, after: int, task_id: str) -> Part | StreamReset | None:
    """The events of one task up to the last boundary. None if its history may be incomplete, or if the reader
    is past the boundary."""
    position, through = broadcaster.position(after), broadcaster.boundary
    if through <= after:
        return None
    events = await broadcaster.source.history(task_id, after=after, through=through)
    # Read after the history: events that were pruned before it are missing from it.
    reason = reset_reason(position, await broadcaster.source.bounds())
    if reason is not None:
        return reason
    if events is None:
        return None
    if len(events) > PAGE_EVENTS:
        # One write has at most a page: the buffer of the client is looked at after it.
        events = events[:PAGE_EVENTS]
        through = events[-1].position.offset
    return await broadcaster.encoded(events), through
