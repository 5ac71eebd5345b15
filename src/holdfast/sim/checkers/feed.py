"""The feed and the counters: what they say is what the rows say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from holdfast.core.event import Event
from holdfast.sim.outcome import Outcome


def feed_is_whole(outcome: Outcome) -> Iterator[str]:
    """Offsets without gaps, nothing twice; a reader that comes and goes sees just that."""
    offsets = [event.position.offset for event in outcome.events]
    if offsets != list(range(1, len(offsets) + 1)):
        yield f"the feed is not contiguous: {len(offsets)} events up to {offsets[-1:]}"
    positions = [str(event.position) for event in outcome.events]
    for name, seen in outcome.record.seen.items():
        if seen != positions[: len(seen)]:
            yield f"{name} saw another feed: {len(seen)} events"


ENDS: Final = {
    "completed": "task.completed",
    "failed": "task.dead",
    "aborted": "task.aborted",
}


def changes_have_their_events(outcome: Outcome) -> Iterator[str]:
    """No state without its event: as many ends in the feed as in the rows, for each task."""
    rows = Counter(
        (c.id, ENDS[c.status]) for c in outcome.history if c.status in ENDS and c.was != c.status
    )
    told = Counter((e.task_id, e.kind) for e in outcome.events if e.kind in ENDS.values())
    for key in rows.keys() | told.keys():
        if rows[key] != told[key]:
            yield f"{key[0]}: {key[1]} is {told[key]} times in the feed, {rows[key]} times in the rows"
    claims = Counter(c.id for c in outcome.history if c.was == "queued" and c.status == "running")
    starts = Counter(e.task_id for e in outcome.events if e.kind == "task.started")
    for task_id in claims.keys() | starts.keys():
        if claims[task_id] != starts[task_id]:
            yield f"{task_id} was claimed {claims[task_id]} times, the feed says {starts[task_id]}"


def counters_are_exact(outcome: Outcome) -> Iterator[str]:
    """The kept figures are what a count of the rows gives."""
    counted = Counter(
        (t.queue, t.type, int(t.priority), t.status.value) for t in outcome.tasks.values()
    )
    kept = {(q, t, p, s): n for q, t, p, s, n in outcome.counters if n}
    if kept != counted:
        differing = {
            key for key in kept.keys() | counted.keys() if kept.get(key, 0) != counted[key]
        }
        yield f"counters differ at {sorted(differing)[:3]}"


def the_feed_adds_up_to_the_rows(outcome: Outcome) -> Iterator[str]:
    """Whoever follows the feed from its beginning knows where each task is."""
    known: dict[str, str] = {}
    for event in outcome.events:
        if event.task_id is not None and (status := _status_after(event)) is not None:
            known[event.task_id] = status
    for task in outcome.tasks.values():
        if known.get(task.id) != task.status.value:
            yield f"{task.id} is {task.status}, whoever follows the feed takes it for {known.get(task.id)}"


AFTER: Final = {
    "task.unblocked": "queued",
    "task.started": "running",
    "task.snoozed": "queued",
    "task.released": "queued",
    "task.lost": "queued",
    "task.resumed": "queued",
    "task.replayed": "queued",
    "task.revived": "blocked",
    "task.paused": "paused",
    **{kind: status for status, kind in ENDS.items()},
}


def _status_after(event: Event) -> str | None:
    match event.kind:
        case "task.enqueued":
            return "blocked" if event.data.get("waiting_on") else "queued"
        case "task.failed" if event.data.get("will_retry"):
            return "queued"
        case kind:
            return AFTER.get(kind)
