"""Administrative transactions: pausing and resuming queues, pruning tasks.

Promises: a change and its event are written in the same transaction.
"""

from __future__ import annotations

from collections import Counter

from holdfast.core.event import NewEvent
from holdfast.core.ids import Ids
from holdfast.store.port import Dialect
from holdfast.store.script import Script, call
from holdfast.store.scripts import feed
from holdfast.store.scripts.work import record


def pause_queue(
    dialect: Dialect, ids: Ids, now: float, *, name: str, actor: str, reason: str
) -> Script[None]:
    yield call("pause_queue", name=name, now=now, actor=actor, reason=reason)
    data = {"queue": name, "actor": actor, "reason": reason}
    yield from _record_event(dialect, ids, now, "queue.paused", data)


def resume_queue(dialect: Dialect, ids: Ids, now: float, *, name: str, actor: str) -> Script[None]:
    if (yield call("resume_queue", name=name)):
        data = {"queue": name, "actor": actor, "reason": ""}
        yield from _record_event(dialect, ids, now, "queue.resumed", data)


def _record_event(
    dialect: Dialect, ids: Ids, now: float, kind: str, data: dict[str, str]
) -> Script[None]:
    record_id = yield from dialect.record_ref(ids.record(now))
    yield from record(dialect, record_id, now, [NewEvent(kind, now, "", "", {**data})], Counter())


def prune_tasks(dialect: Dialect, *, before: float, dead_before: float, limit: int) -> Script[int]:
    """Deletes tasks that ended before the cutoff. Returns how many.

    Counts a batch of the feed first, because the deleted tasks are subtracted from the counters at once."""
    yield from feed.count(dialect)
    return (yield from dialect.prune_tasks(before=before, dead_before=dead_before, limit=limit))
