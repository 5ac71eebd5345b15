"""Transactions around tasks: schedules, queue pauses, pruning. Each with its facts."""

from __future__ import annotations

from collections import Counter

from holdfast.core.event import Fact
from holdfast.core.ids import Ids
from holdfast.core.schedule import Schedule, next_fire
from holdfast.core.submit import Submission
from holdfast.store.port import Dialect
from holdfast.store.script import Script, call
from holdfast.store.scripts import feed
from holdfast.store.scripts.insert import Inserted, insert
from holdfast.store.scripts.work import record


def fire(
    dialect: Dialect, ids: Ids, now: float, *, schedule: Schedule, submission: Submission
) -> Script[Inserted | None]:
    """Enqueues the task of a due schedule, unless another instance was first."""
    after = next_fire(schedule.spec, schedule.timezone, now)
    taken = yield call(
        "take_schedule", name=schedule.name, seen=schedule.next_at, next_at=after, now=now
    )
    if not taken:
        return None
    found = yield from insert([submission], now=now, batch=ids.record(now), recorder=dialect)
    return found[0]


def pause_queue(
    dialect: Dialect, ids: Ids, now: float, *, name: str, actor: str, reason: str
) -> Script[None]:
    yield call("pause_queue", name=name, now=now, actor=actor, reason=reason)
    yield from _queue_fact(dialect, ids, now, "queue.paused", name, actor, reason)


def resume_queue(dialect: Dialect, ids: Ids, now: float, *, name: str, actor: str) -> Script[None]:
    yield call("resume_queue", name=name)
    yield from _queue_fact(dialect, ids, now, "queue.resumed", name, actor, "")


def _queue_fact(
    dialect: Dialect, ids: Ids, now: float, kind: str, name: str, actor: str, reason: str
) -> Script[None]:
    fact = Fact(kind, now, "", "", {"queue": name, "actor": actor, "reason": reason})
    batch = yield from dialect.place(ids.record(now))
    yield from record(dialect, batch, now, [fact], Counter())


def prune_tasks(dialect: Dialect, *, before: float, dead_before: float, limit: int) -> Script[int]:
    """Rows that ended long ago; how many went."""
    yield from feed.count(dialect)
    return (yield from dialect.prune_tasks(before=before, dead_before=dead_before, limit=limit))
