"""The kinds of events, so that a wrong name can be refused. docs/reference/events.md describes each."""

from __future__ import annotations

from typing import Final

KINDS: Final = frozenset(
    {
        "lock.revoked",
        "lock.taken_over",
        "node.left",
        "node.lost",
        "node.registered",
        "queue.paused",
        "queue.resumed",
        "schedule.fired",
        "schedule.paused",
        "schedule.put",
        "schedule.removed",
        "schedule.resumed",
        "task.aborted",
        "task.blamed",
        "task.checkpoint",
        "task.completed",
        "task.dead",
        "task.edited",
        "task.enqueued",
        "task.failed",
        "task.late",
        "task.lost",
        "task.paused",
        "task.progress",
        "task.released",
        "task.replayed",
        "task.resumed",
        "task.revived",
        "task.snoozed",
        "task.started",
        "task.unblocked",
    }
)
