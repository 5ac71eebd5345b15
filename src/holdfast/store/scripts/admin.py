"""Administrative transactions: pausing and resuming queues, pruning tasks.

Promises: a change and its event are written in the same transaction.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from holdfast.core.event import NewEvent
from holdfast.core.ids import Ids
from holdfast.store.beside import Beside, begin, end
from holdfast.store.port import Dialect
from holdfast.store.script import Script, call
from holdfast.store.scripts import feed
from holdfast.store.scripts.work import record


def pause_queue(
    dialect: Dialect,
    ids: Ids,
    now: float,
    *,
    name: str,
    actor: str,
    reason: str,
    beside: Beside | None = None,
) -> Script[None]:
    """The outcome for `beside` is the time of the pause."""
    yield from begin(beside, now)
    yield call("pause_queue", name=name, now=now, actor=actor, reason=reason)
    data = {"queue": name, "actor": actor, "reason": reason}
    more = yield from end(beside, now, now)
    yield from _record_event(dialect, ids, now, "queue.paused", data=data, more=more)


def resume_queue(
    dialect: Dialect,
    ids: Ids,
    now: float,
    *,
    name: str,
    actor: str,
    reason: str = "",
    beside: Beside | None = None,
) -> Script[None]:
    """The outcome for `beside`: whether the queue was paused."""
    yield from begin(beside, now)
    is_changed = bool((yield call("resume_queue", name=name)))
    more = yield from end(beside, is_changed, now)
    if is_changed:
        data = {"queue": name, "actor": actor, "reason": reason}
        yield from _record_event(dialect, ids, now, "queue.resumed", data=data, more=more)


def _record_event(
    dialect: Dialect,
    ids: Ids,
    now: float,
    kind: str,
    *,
    data: dict[str, str],
    more: Sequence[NewEvent],
) -> Script[None]:
    record_id = yield from dialect.record_ref(ids.record(now))
    events = [NewEvent(kind, now, "", "", {**data}), *more]
    yield from record(dialect, record_id, now, events, Counter())


def prune_tasks(dialect: Dialect, *, before: float, dead_before: float, limit: int) -> Script[int]:
    """Deletes tasks that ended before the cutoff. Returns how many.

    Counts a batch of the feed first, because the deleted tasks are subtracted from the counters at once."""
    yield from feed.count(dialect)
    return (yield from dialect.prune_tasks(before=before, dead_before=dead_before, limit=limit))
