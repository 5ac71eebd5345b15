"""Inserts tasks: deduplicates requests, resolves parents, applies limits, writes rows, edges and events.

Promises: a group is inserted whole or not at all. A repeated request is answered with the existing task; the
same key with another request is an error. A child of a dead parent fails in the same transaction, as if the
parent had ended just after the insert.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from holdfast.core import dependency, limit as rules
from holdfast.core.decide import enqueued
from holdfast.core.dependency import Edge
from holdfast.core.event import NewEvent
from holdfast.core.limit import Limit
from holdfast.core.request import is_same_request
from holdfast.core.submit import Submission
from holdfast.core.task import ENDED, Status, Task
from holdfast.errors import DuplicateTask, IdempotencyConflict
from holdfast.store.columns import new_values
from holdfast.store.script import Script, call, call_rows
from holdfast.store.scripts import apply, cascade, limits as limit_scripts, tags, unique
from holdfast.store.scripts.work import Recorder, Work, record


class Inserted(msgspec.Struct, frozen=True, gc=False):
    """The answer to an enqueue."""

    task_id: str
    status: Status
    created: bool
    """False: an earlier request created the task."""
    created_at: float | None = None
    """The time that the row of a plain task has. None: the row is not known without a read."""


NAMED: Final = "named"
"""The mark of an id that a node has given to another task of the project as its name."""


def may_wait(group: Sequence[Submission]) -> bool:
    """Whether the insert may wait for an open transaction with the same id, key or window. Such an
    insert must not hold locks that others need. Generated ids are unique; only a request that can be repeated
    has a hash."""
    return any(s.task.request_hash is not None or s.unique is not None for s in group)


def insert(
    group: Sequence[Submission],
    *,
    now: float,
    record_id: int,
    recorder: Recorder,
    beside: Sequence[NewEvent] = (),
    in_tx: bool = False,
    unlinked: bool = False,
) -> Script[list[Inserted]]:
    """Inserts one caller's tasks.

    `beside`: further events for the same record, for example of the schedule that fired. `in_tx`: this is
    the caller's transaction. It may stay open for long, so it locks no limit; the claim checks the limits.
    `unlinked`: it locks no parent either (see scripts/edges.py)."""
    if given := [(s.task.project, s.task.id) for s in group if s.id_given]:
        yield call_rows("share_names", given)
    answers, fresh = yield from _answer_repeats(group)
    taken = yield from unique.take(fresh, now)
    for task_id, holder in taken.items():
        answers[task_id] = Inserted(holder.id, holder.status, False)
    fresh = [submission for submission in fresh if submission.task.id not in taken]
    tasks, edges, dead = yield from _resolve_parents(fresh, unlinked=unlinked)
    work = Work(now)
    if tasks:
        gates_late = may_wait(fresh)
        if not (in_tx or gates_late):
            tasks = yield from _pass_limits(tasks, now)
        record_id = yield from recorder.record_ref(record_id)
        yield call_rows(
            "insert_tasks",
            [(*new_values(task), nth) for nth, task in enumerate(tasks)],
            record_id=str(record_id),
        )
        yield from tags.add(tasks)
        yield from _insert_edges(edges, [s.task.id for s in fresh], unlinked=unlinked)
        if gates_late and not in_tx:
            gated = yield from _pass_limits(tasks, now)
            if parked := [(task.id, task.gate) for task in gated if task.gate is not None]:
                yield call_rows("park_tasks", parked)
        for task in tasks:
            work.events.append(enqueued(task, now))
            work.count(task, 1)
        work.events.extend(beside)
        if dead:
            yield from _fail_with(work, dead, edges, record_id, recorder)
        else:
            yield from record(recorder, record_id, now, work.events, work.deltas)
    for task in tasks:
        answers[task.id] = Inserted(task.id, work.tasks.get(task.id, task).status, True)
    return [answers[submission.task.id] for submission in group]


def _answer_repeats(
    group: Sequence[Submission],
) -> Script[tuple[dict[str, Inserted], list[Submission]]]:
    """Answers repeated requests with their existing tasks. Returns these answers and the new submissions."""
    rows = yield call_rows(
        "find_existing",
        [(s.task.id, s.task.project, s.task.type, s.task.idempotency_key) for s in group],
    )
    named = {row[0] for row in rows if row[4] == NAMED}
    rows = [row for row in rows if row[4] != NAMED]
    by_id = {row[0]: row for row in rows}
    by_key = {(row[1], row[2], row[5]): row for row in rows if row[2] is not None}
    answers: dict[str, Inserted] = {}
    fresh: list[Submission] = []
    first_by_key: dict[tuple[str, str, str], Task] = {}
    ids: set[str] = set()
    for submission in group:
        task = submission.task
        if task.id in ids:
            raise DuplicateTask(
                f"id '{task.id}' stands twice in one batch: give each task its own id"
            )
        ids.add(task.id)
        key = (task.type, task.idempotency_key or "", task.project)
        row = (by_key.get(key) if task.idempotency_key else None) or by_id.get(task.id)
        if row is not None:
            _check_same(submission, row)
            answers[task.id] = Inserted(row[0], Status(row[4]), False)
        elif task.idempotency_key and key in first_by_key:
            first = first_by_key[key]
            row = (first.id, *key[:2], first.request_hash, first.status, first.project)
            _check_same(submission, row)
            answers[task.id] = Inserted(first.id, first.status, False)
        elif task.id in named:
            raise DuplicateTask(
                f"a node of project '{task.project}' has a task with the name '{task.id}': "
                "choose another id or leave it out"
            )
        else:
            first_by_key[key] = task
            fresh.append(submission)
    return answers, fresh


def _check_same(submission: Submission, row: Sequence[Any]) -> None:
    task = submission.task
    # Ids are unique in the store. A task of another project is never the answer to a request.
    if row[5] == task.project and is_same_request(task, submission.edges, row[3]):
        return
    is_of_key = task.idempotency_key is not None and row[2] == task.idempotency_key
    if is_of_key and row[5] == task.project:
        raise IdempotencyConflict(
            f"idempotency key '{task.idempotency_key}' made task {row[0]} from another request: "
            "use a new key for new work"
        )
    raise DuplicateTask(f"a different task has the id '{task.id}': choose another or leave it out")


class _Resolved(NamedTuple):
    """New tasks with the status that their parents imply."""

    tasks: list[Task]
    edges: list[tuple[str, Edge, bool]]
    """(child id, edge, whether the edge is met)."""
    dead: dict[str, Task]
    """Locked dead parents by id. Their children fail in this transaction."""


def _resolve_parents(group: Sequence[Submission], *, unlinked: bool) -> Script[_Resolved]:
    """Decides which tasks start blocked. Parents in the same batch count as unfinished. With `unlinked`, dead
    parents do too, because the link settles their children later."""
    edges = {s.task.id: s.edges for s in group}
    if not any(edges.values()):
        return _Resolved([s.task for s in group], [], {})
    dependency.check_acyclic(edges)
    outside = sorted(
        {e.parent_id for task_edges in edges.values() for e in task_edges} - set(edges)
    )
    parents: list[Task] = yield call("get_tasks" if unlinked else "lock_tasks", ids=outside)
    # A dependency on a task of another project is one on a task that does not exist.
    statuses: dict[str, dict[str, Status]] = {s.task.project: {} for s in group}
    for parent in parents:
        if parent.project in statuses:
            statuses[parent.project][parent.id] = parent.status
    for submission in group:
        statuses[submission.task.project][submission.task.id] = Status.QUEUED
    tasks = []
    resolved: list[tuple[str, Edge, bool]] = []
    for submission in group:
        task = submission.task
        if submission.edges:
            visible = statuses[task.project]
            pending = dependency.still_pending(task.id, submission.edges, visible)
            status = Status.BLOCKED if pending else Status.QUEUED
            task = replace(task, status=status, waiting_on=len(pending))
            resolved += [(task.id, edge, edge not in pending) for edge in submission.edges]
        tasks.append(task)
    unmet = {edge.parent_id for _, edge, is_met in resolved if not is_met and not unlinked}
    dead = {p.id: p for p in parents if p.id in unmet and p.status in ENDED}
    return _Resolved(tasks, resolved, dead)


def _fail_with(
    work: Work,
    dead: Mapping[str, Task],
    edges: Sequence[tuple[str, Edge, bool]],
    record_id: int,
    recorder: Recorder,
) -> Script[None]:
    """Fails new children of dead parents, then records everything. Rows and edges exist already."""
    lost = [
        (child_id, edge.parent_id, edge.policy.value)
        for child_id, edge, is_met in edges
        if not is_met and edge.parent_id in dead
    ]
    yield from cascade.settle(work, dead, lost)
    yield from apply.finish(work, record_id, recorder, recorder.cascade_batch - len(lost))


def _insert_edges(
    edges: Sequence[tuple[str, Edge, bool]], batch_ids: Sequence[str], *, unlinked: bool
) -> Script[None]:
    """Stores all edges, so that a child can read its parents' results; met edges are settled. An edge within
    the batch is never unlinked, because no other transaction sees its parent yet."""
    if not edges:
        return
    inside = set(batch_ids)
    rows = [
        (
            child_id,
            edge.parent_id,
            edge.policy.value,
            int(is_met),
            int(unlinked and edge.parent_id not in inside),
        )
        for child_id, edge, is_met in edges
    ]
    yield call_rows("insert_edges", rows)
    parents = {edge.parent_id for _, edge, _ in edges}
    if linked_ids := sorted(parents & inside if unlinked else parents):
        yield call("mark_parents", ids=linked_ids)


def _pass_limits(tasks: list[Task], now: float) -> Script[list[Task]]:
    """Parks new tasks at limits that are full or have parked tasks. A limit that does not exist yet, or that
    another transaction holds, is checked by the claim."""
    limited = [task for task in tasks if task.limits and task.status is Status.QUEUED]
    if not limited:
        return tasks
    names = {name for task in limited for name in task.limit_names}
    limits = yield from limit_scripts.lock(names, wait=False)
    changed = False
    gates: dict[str, str] = {}
    for task in limited:
        changed = limit_scripts.rule_by(limits, task, is_new=True) or changed
        gate = _full(task, limits, now)
        if gate is not None:
            limits[gate] = replace(limits[gate], parked=limits[gate].parked + 1)
            gates[task.id] = gate
    if changed or gates:
        yield from limit_scripts.save(limits, now)
    return [replace(task, gate=gates[task.id]) if task.id in gates else task for task in tasks]


def _full(task: Task, limits: dict[str, Limit], now: float) -> str | None:
    for name in task.limit_names:
        limit = limits.get(name)
        if limit is not None and (limit.parked > 0 or rules.permits(limit, now) < 1):
            return name
    return None
