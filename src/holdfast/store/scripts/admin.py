"""Transactions around tasks: queue pauses, pruning. Each with its facts."""

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
    yield from _queue_fact(dialect, ids, now, "queue.paused", name, actor, reason)


def resume_queue(dialect: Dialect, ids: Ids, now: float, *, name: str, actor: str) -> Script[None]:
    if (yield call("resume_queue", name=name)):
        yield from _queue_fact(dialect, ids, now, "queue.resumed", name, actor, "")


def _queue_fact(
    dialect: Dialect, ids: Ids, now: float, kind: str, name: str, actor: str, reason: str
) -> Script[None]:
    fact = NewEvent(kind, now, "", "", {"queue": name, "actor": actor, "reason": reason})
    record_id = yield from dialect.record_ref(ids.record(now))
    yield from record(dialect, record_id, now, [fact], Counter())


def prune_tasks(dialect: Dialect, *, before: float, dead_before: float, limit: int) -> Script[int]:
    """Rows that ended long ago; how many went."""
    yield from feed.count(dialect)
    return (yield from dialect.prune_tasks(before=before, dead_before=dead_before, limit=limit))
