"""Administrative transactions: pausing and resuming queues, pruning tasks.

Promises: a change and its event are written in the same transaction.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from holdfast.core.event import NewEvent
from holdfast.core.ids import Ids
from holdfast.core.queue_pause import QueuePause
from holdfast.errors import VersionConflict
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
    expected_version: int | None = None,
    beside: Beside | None = None,
) -> Script[None]:
    """The outcome for `beside` is the `QueuePause`."""
    yield from begin(beside, now)
    rows = yield call("pause_queue", name=name, now=now, actor=actor, reason=reason)
    version = int(rows[0][0])
    # The row has no lock before: another version undoes the transaction.
    check_version(f"queue '{name}'", version - 1, expected_version)
    data = {"queue": name, "actor": actor, "reason": reason}
    more = yield from end(beside, QueuePause(name, now, actor, reason, version), now)
    yield from _record_event(dialect, ids, now, "queue.paused", data=data, more=more)


def resume_queue(
    dialect: Dialect,
    ids: Ids,
    now: float,
    *,
    name: str,
    actor: str,
    reason: str = "",
    expected_version: int | None = None,
    beside: Beside | None = None,
) -> Script[None]:
    """The outcome for `beside` is the `QueuePause`, whether the queue was paused or not."""
    yield from begin(beside, now)
    changed = yield call("resume_queue", name=name)
    rows = changed or (yield call("queue_version", name=name))
    version = int(rows[0][0]) if rows else 0
    check_version(f"queue '{name}'", version - len(changed), expected_version)
    more = yield from end(beside, QueuePause(name, None, None, None, version), now)
    if changed:
        data = {"queue": name, "actor": actor, "reason": reason}
        yield from _record_event(dialect, ids, now, "queue.resumed", data=data, more=more)


def check_version(noun: str, version: int, expected: int | None) -> None:
    """VersionConflict unless the version is the expected one, or none is expected."""
    if expected is not None and expected != version:
        error = VersionConflict(f"{noun} is at version {version}, not {expected}: read it again")
        error.current = {"version": version}
        raise error


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
