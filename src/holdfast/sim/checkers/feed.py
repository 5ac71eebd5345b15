"""Laws about the feed and the counters: both agree with the rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from holdfast.core.event import status_after
from holdfast.core.task import Status
from holdfast.sim.outcome import Outcome


def feed_is_contiguous(outcome: Outcome) -> Iterator[str]:
    """Offsets have no gaps and no duplicates; a subscriber that restarts reads the same events."""
    offsets = [event.position.offset for event in outcome.events]
    if offsets != list(range(1, len(offsets) + 1)):
        yield f"the feed is not contiguous: {len(offsets)} events up to {offsets[-1:]}"
    positions = [str(event.position) for event in outcome.events]
    for name, read in outcome.record.positions_read.items():
        if read != positions[: len(read)]:
            yield f"{name} read another feed: {len(read)} events"


ENDS: Final = {
    "completed": "task.completed",
    "failed": "task.dead",
    "aborted": "task.aborted",
}


def changes_have_events(outcome: Outcome) -> Iterator[str]:
    """Each task has as many end events and start events as its rows had ends and claims."""
    rows = Counter(
        (c.id, ENDS[c.status]) for c in outcome.history if c.status in ENDS and c.was != c.status
    )
    events = Counter((e.task_id, e.kind) for e in outcome.events if e.kind in ENDS.values())
    for key in rows.keys() | events.keys():
        if rows[key] != events[key]:
            yield f"{key[0]}: {key[1]} is {events[key]} times in the feed, {rows[key]} times in the rows"
    claims = Counter(c.id for c in outcome.history if c.was == "queued" and c.status == "running")
    starts = Counter(e.task_id for e in outcome.events if e.kind == "task.started")
    for task_id in claims.keys() | starts.keys():
        if claims[task_id] != starts[task_id]:
            yield f"{task_id} was claimed {claims[task_id]} times, the feed says {starts[task_id]}"


def counters_are_exact(outcome: Outcome) -> Iterator[str]:
    """The counters equal a count of the rows."""
    counted = Counter(
        (t.queue, t.type, int(t.priority), t.status.value) for t in outcome.tasks.values()
    )
    counters = {(q, t, p, s): n for q, t, p, s, n in outcome.counters if n}
    if counters != counted:
        differing = {
            key for key in counters.keys() | counted.keys() if counters.get(key, 0) != counted[key]
        }
        yield f"counters differ at {sorted(differing)[:3]}"


def feed_matches_rows(outcome: Outcome) -> Iterator[str]:
    """Replaying the feed from its start gives the status of every task."""
    replayed: dict[str, Status] = {}
    for event in outcome.events:
        if event.task_id is not None and (status := status_after(event)) is not None:
            replayed[event.task_id] = status
    for task in outcome.tasks.values():
        if replayed.get(task.id) is not task.status:
            yield f"{task.id} is {task.status}, the feed says {replayed.get(task.id)}"
