"""Creates, changes, pauses, resumes, runs, removes and fires schedules, each with an event.

Promises: a call that changes nothing writes no event. A due schedule fires once, in the transaction that sets
its next time, however many nodes try.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from holdfast.core.event import NewEvent
from holdfast.core.ids import Ids
from holdfast.core.schedule import REMOTE, Schedule, is_changed, is_silent, next_fire
from holdfast.core.submit import Submission
from holdfast.core.task import DEFAULT_PROJECT
from holdfast.errors import Conflict, NotFound
from holdfast.store.beside import Beside, begin, end
from holdfast.store.port import Dialect
from holdfast.store.script import Script, call
from holdfast.store.scripts import unique
from holdfast.store.scripts.admin import check_version
from holdfast.store.scripts.insert import Inserted, insert
from holdfast.store.scripts.work import record


def put(
    dialect: Dialect,
    ids: Ids,
    now: float,
    *,
    schedule: Schedule,
    actor: str,
    reason: str = "",
    expected_version: int | None = None,
    beside: Beside | None = None,
) -> Script[bool]:
    """Creates or replaces a schedule. Returns whether it changed. Its next time is kept if spec and timezone
    are unchanged; a pause is kept in any case. The outcome for `beside` is the schedule as it is stored."""
    yield from begin(beside, now)
    rows = yield call("lock_schedule", name=schedule.name)
    before = Schedule(*rows[0]) if rows else None
    if before is not None:
        if schedule.owner == REMOTE and not _may_define(before, schedule, now):
            return False
        if schedule.owner is None:
            _check_owner(before, schedule)
    version = 0 if before is None else before.version
    check_version(f"schedule '{schedule.name}'", version, expected_version)
    announced_at = None if schedule.owner is None else now
    if before is not None and not is_changed(before, schedule):
        if announced_at is not None:
            yield call("announce_schedules", names=[schedule.name], now=now)
        yield from end(beside, before, now)
        return False
    yield call(
        "put_schedule",
        name=schedule.name,
        type=schedule.type,
        queue=schedule.queue,
        spec=schedule.spec,
        timezone=schedule.timezone,
        payload_json=schedule.payload_json,
        priority=schedule.priority,
        next_at=next_fire(schedule.spec, schedule.timezone, now),
        owner=schedule.owner,
        announced_at=announced_at,
        project=schedule.project,
    )
    if beside is not None:
        yield from end(beside, (yield from _locked(schedule.name)), now)
    data = {"spec": schedule.spec, "timezone": schedule.timezone, "queue": schedule.queue}
    if reason:
        data["reason"] = reason
    yield from _tell(dialect, ids, now, "schedule.put", schedule, actor=actor, **data)
    return True


def _may_define(before: Schedule, schedule: Schedule, now: float) -> bool:
    """Whether the code of a remote worker defines a schedule that exists: not that of an operator or of
    another project, and not while a node with the database has its code."""
    if before.owner is None or before.project != schedule.project:
        return False
    return before.owner == REMOTE or is_silent(before, now)


def _check_owner(before: Schedule, schedule: Schedule) -> None:
    if before.project != schedule.project:
        raise Conflict(
            f"schedule '{schedule.name}' belongs to another project: choose another name"
        )
    if before.owner is not None:
        raise Conflict(
            f"schedule '{schedule.name}' belongs to the code that defines its task: change it there, "
            "pause it, or choose another name"
        )


def remove(
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
    """The outcome for `beside` is the schedule that was removed."""
    yield from begin(beside, now)
    schedule = yield from _locked(name, expected_version)
    yield call("drop_schedule", name=name)
    yield from end(beside, schedule, now)
    yield from _tell(dialect, ids, now, "schedule.removed", schedule, actor=actor, reason=reason)


def forget(dialect: Dialect, ids: Ids, now: float, *, schedule: Schedule) -> Script[bool]:
    """Removes a schedule that is no longer in the code, unless a node has announced it since it was read."""
    rows = yield call("lock_schedule", name=schedule.name)
    if not rows or Schedule(*rows[0]).announced_at != schedule.announced_at:
        return False
    yield call("drop_schedule", name=schedule.name)
    yield from _tell(
        dialect, ids, now, "schedule.removed", schedule, actor="", reason="it has left the code"
    )
    return True


def pause(
    dialect: Dialect,
    ids: Ids,
    now: float,
    *,
    name: str,
    actor: str,
    reason: str,
    expected_version: int | None = None,
    beside: Beside | None = None,
) -> Script[Schedule]:
    """The outcome for `beside` is the schedule."""
    yield from begin(beside, now)
    schedule = yield from _locked(name, expected_version)
    after = (
        schedule if schedule.paused else replace(schedule, paused=1, version=schedule.version + 1)
    )
    if not schedule.paused:
        yield call("hold_schedule", name=name, paused=1, next_at=schedule.next_at)
    yield from end(beside, after, now)
    if not schedule.paused:
        yield from _tell(dialect, ids, now, "schedule.paused", schedule, actor=actor, reason=reason)
    return after


def resume(
    dialect: Dialect,
    ids: Ids,
    now: float,
    *,
    name: str,
    actor: str,
    reason: str = "",
    expected_version: int | None = None,
    beside: Beside | None = None,
) -> Script[Schedule]:
    """Resumes a schedule from its next time after now. Times missed during the pause are not fired. The
    outcome for `beside` is the schedule."""
    yield from begin(beside, now)
    schedule = yield from _locked(name, expected_version)
    if not schedule.paused:
        yield from end(beside, schedule, now)
        return schedule
    next_at = next_fire(schedule.spec, schedule.timezone, now)
    after = replace(schedule, paused=0, next_at=next_at, version=schedule.version + 1)
    yield call("hold_schedule", name=name, paused=0, next_at=next_at)
    yield from end(beside, after, now)
    data = {"actor": actor, "next_at": next_at, "reason": reason}
    yield from _tell(dialect, ids, now, "schedule.resumed", schedule, **data)
    return after


def fire(
    dialect: Dialect, ids: Ids, now: float, *, schedule: Schedule, submission: Submission
) -> Script[Inserted | None]:
    """Enqueues the task of a due schedule. Returns None if another node has fired it."""
    after = next_fire(schedule.spec, schedule.timezone, now)
    taken = yield call(
        "take_schedule", name=schedule.name, seen=schedule.next_at, next_at=after, now=now
    )
    if not taken:
        return None
    return (yield from _enqueue(dialect, ids, now, schedule, submission, next_at=after))


def run(
    dialect: Dialect,
    ids: Ids,
    now: float,
    *,
    name: str,
    submission: Submission,
    actor: str,
    reason: str = "",
    expected_version: int | None = None,
    beside: Beside | None = None,
) -> Script[Inserted]:
    """Enqueues the task of a schedule now. Its next time stays, and its pause. The outcome for `beside` is a
    list with the insert."""
    yield from begin(beside, now)
    schedule = yield from _locked(name, expected_version)
    who = {"actor": actor, "reason": reason}
    inserted = yield from _enqueue(dialect, ids, now, schedule, submission, **who)
    yield from end(beside, [inserted], now)
    return inserted


def backfill(
    dialect: Dialect,
    ids: Ids,
    now: float,
    *,
    name: str,
    submissions: Sequence[Submission],
    actor: str,
    reason: str = "",
    expected_version: int | None = None,
    beside: Beside | None = None,
) -> Script[list[Inserted]]:
    """Enqueues the tasks of past times, each once: a task that an earlier backfill made is the answer for its
    time. The next time stays. The outcome for `beside` is the list of inserts."""
    yield from begin(beside, now)
    schedule = yield from _locked(name, expected_version)
    inserted = yield from insert(submissions, now=now, record_id=ids.record(now), recorder=dialect)
    who = {"actor": actor, "reason": reason}
    fired = [
        _event("schedule.fired", now, schedule, task=each.task_id, **who)
        for each in inserted
        if each.created
    ]
    if fired:
        record_id = yield from dialect.record_ref(ids.record(now))
        yield from record(dialect, record_id, now, fired, Counter())
    yield from end(beside, inserted, now)
    return inserted


def _enqueue(
    dialect: Dialect,
    ids: Ids,
    now: float,
    schedule: Schedule,
    submission: Submission,
    **data: Any,
) -> Script[Inserted]:
    """Inserts the task of a schedule, with the event of the firing."""
    held = yield from unique.take([submission], now)
    holder = held.get(submission.task.id)
    task_id = submission.task.id if holder is None else holder.id
    fired = _event("schedule.fired", now, schedule, task=task_id, **data)
    if holder is not None:
        # The task of an earlier fire is in the unique window of the type.
        record_id = yield from dialect.record_ref(ids.record(now))
        yield from record(dialect, record_id, now, [fired], Counter())
        return Inserted(holder.id, holder.status, False)
    inserted = yield from insert(
        [submission], now=now, record_id=ids.record(now), recorder=dialect, beside=[fired]
    )
    return inserted[0]


def _locked(name: str, expected_version: int | None = None) -> Script[Schedule]:
    rows = yield call("lock_schedule", name=name)
    if not rows:
        raise NotFound(f"there is no schedule '{name}': see the list of schedules")
    schedule = Schedule(*rows[0])
    check_version(f"schedule '{name}'", schedule.version, expected_version)
    return schedule


def _event(kind: str, now: float, schedule: Schedule, **data: Any) -> NewEvent:
    project = "" if schedule.project == DEFAULT_PROJECT else schedule.project
    return NewEvent(kind, now, "", schedule.type, {"schedule": schedule.name, **data}, project)


def _tell(
    dialect: Dialect, ids: Ids, now: float, kind: str, schedule: Schedule, **data: Any
) -> Script[None]:
    record_id = yield from dialect.record_ref(ids.record(now))
    yield from record(dialect, record_id, now, [_event(kind, now, schedule, **data)], Counter())
