"""Retention of tasks that nodes know by a name, and of what the exchange keeps beside tasks.

Promises: a task loses its name, leaves a tombstone and has its event in one transaction, so a node that was
away learns of it from the feed or from the tombstone. Only then is the task itself removed.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from holdfast.core.event import NewEvent
from holdfast.core.ids import Ids
from holdfast.core.retention import HubRetention
from holdfast.core.task import DEFAULT_PROJECT
from holdfast.store.port import Dialect
from holdfast.store.script import Script, call, call_rows
from holdfast.store.scripts import feed
from holdfast.store.scripts.work import record

LOG_ROWS: Final = 100_000
"""Rows of the sync log that a project keeps."""
CONFLICTS_SECONDS: Final = 90 * 86_400.0
"""How long a settled conflict is kept by default."""
CONFLICT_ROWS: Final = 10_000
"""Conflicts of a project beyond which the oldest settled ones are removed."""
BULK_SECONDS: Final = 30 * 86_400.0
"""How long an operation on many tasks is kept after it has ended."""
OUTPUT_ROWS: Final = 200
"""Rows of output that one transaction removes."""


def prune_named(
    dialect: Dialect, ids: Ids, now: float, *, before: float, dead_before: float, limit: int
) -> Script[int]:
    """Takes the names of tasks that ended before the cutoff. Returns how many. Tasks without a name are then
    pruned like all others."""
    rows = yield call("prunable_named", before=before, dead_before=dead_before, limit=limit)
    rows = [*rows, *(yield call("kept_named", now=now, limit=limit))]
    if not rows:
        return 0
    events = []
    for task_id, project, kind, version, client_id in rows:
        scope = "" if project == DEFAULT_PROJECT else project
        data = {"client_id": client_id, "reason": "retention"}
        events.append(NewEvent("task.deleted", now, task_id, kind, data, scope, version))
    yield call("delete_names", ids=[row[0] for row in rows])
    stones = [(row[1], row[4], row[0], row[3]) for row in rows]
    yield call_rows("add_tombstones", stones, now=now)
    record_id = yield from dialect.record_ref(ids.record(now))
    yield from record(dialect, record_id, now, events, Counter())
    return len(rows)


def prune_kept(dialect: Dialect, ids: Ids, now: float, *, limit: int) -> Script[int]:
    """Deletes tasks that are older than the retention of their type. Returns how many."""
    rows = yield call("ended_kept", now=now, limit=limit)
    if not rows:
        return 0
    yield from feed.count(dialect)  # The deleted tasks are subtracted from the counters at once.
    return len((yield from dialect.delete_tasks([row[0] for row in rows])))


def prune_output(*, before: float, dead_before: float, limit: int) -> Script[bool]:
    """Removes output of the tasks that are pruned next, at most `OUTPUT_ROWS` rows. Returns whether there may
    be more. Their other rows go with the tasks themselves."""
    cutoffs = {"before": before, "dead_before": dead_before}
    rows = yield call("prune_output", **cutoffs, tasks=limit, limit=OUTPUT_ROWS)
    return len(rows) == OUTPUT_ROWS


def forget_output(*, before: float) -> Script[bool]:
    """Removes output of tasks that ended before this time, at most `OUTPUT_ROWS` rows. Returns
    whether there may be more."""
    rows = yield call("forget_old_output", before=before, limit=OUTPUT_ROWS)
    return len(rows) == OUTPUT_ROWS


def forget(
    now: float,
    limit: int,
    log_rows: int = LOG_ROWS,
    *,
    keep: HubRetention | None = None,
    conflicts_before: float | None = None,
    conflict_rows: int = CONFLICT_ROWS,
) -> Script[int]:
    """Deletes kept answers, tombstones, log rows and settled conflicts that are old, and task groups whose
    tasks are gone. Returns how many."""
    gone = 0
    keep = keep or HubRetention()
    for statement, seconds in (
        ("forget_mutations", keep.answer_seconds),
        ("forget_tombstones", keep.tombstone_seconds),
        ("forget_sync_log", keep.log_seconds),
        ("forget_bulk_runs", BULK_SECONDS),
        ("forget_groups", 0.0),
    ):
        gone += len((yield call(statement, before=now - seconds, limit=limit)))
    gone += len((yield call("trim_sync_log", most=log_rows, limit=limit)))
    before = now - CONFLICTS_SECONDS if conflicts_before is None else conflicts_before
    gone += len((yield call("forget_conflicts", before=before, limit=limit)))
    gone += len((yield call("trim_conflicts", most=conflict_rows, limit=limit)))
    return gone
