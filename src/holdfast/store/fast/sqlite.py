"""The shortcuts of SQLite. It has one writer, so a transaction reads rows without locking them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from holdfast.core import decide
from holdfast.core.alike import AlikeTasks
from holdfast.core.claiming import Claimed, ClaimRequest
from holdfast.core.decide import Transition
from holdfast.core.submit import Submission, inserted_at
from holdfast.core.task import Priority, Status, Task
from holdfast.store.columns import SHAPE, plain_values, shape_values
from holdfast.store.fast.texts import (
    alike_deltas,
    enqueued_alike,
    event_of_one,
    insert_one_values,
    insert_started,
    is_one_shape,
    shared_by,
    started_alike,
)
from holdfast.store.port import NONE_ASIDE, Aside, PreparedCall
from holdfast.store.script import Script, StatementCall, call, call_rows
from holdfast.store.scripts import tags
from holdfast.store.scripts.claim import claim_these
from holdfast.store.scripts.limits import lock_of
from holdfast.store.scripts.turns import in_turn
from holdfast.store.scripts.work import Recorder, counted, record, shifted, shifted_alike


class SqliteFast:
    """See `holdfast.store.port.FastPaths`."""

    __slots__ = ("_recorder",)

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def insert_one(self, task: Task, *, now: float, record_id: int, hint: str) -> StatementCall:
        return StatementCall("insert_one", {}, values=insert_one_values(task, now))

    def prepare_insert(self, task: Task) -> PreparedCall:
        tail, deltas_json, before, after = shared_by(task)

        def statement(
            task_id: str, payload_json: str, now: float, record_id: int, hint: str
        ) -> StatementCall:
            event = event_of_one(task_id, now, tail)
            values = (
                *(1, now, event, deltas_json, task_id, *before, payload_json, *after),
                now,
                now,
            )
            return StatementCall("insert_one", {}, values=values)

        return statement

    def insert_plain(
        self, group: Sequence[Submission], *, now: float, record_id: int, hint: str
    ) -> Script[set[str]]:
        tasks = [submission.task for submission in group]
        if len(tasks) == 1:
            yield self.insert_one(tasks[0], now=now, record_id=record_id, hint=hint)
            yield from tags.add(tasks)
            return {tasks[0].id}
        record_id = yield from self._recorder.record_ref(record_id)
        ids = [task.id for task in tasks]
        changed = yield _insertion(tasks, now, str(record_id))
        inserted = set(ids)
        if changed[0] != len(tasks):
            rows = yield call("changed_by", ids=ids, record_id=str(record_id))
            inserted = {row[0] for row in rows}
            tasks = [task for task in tasks if task.id in inserted]
        yield from tags.add(tasks)
        events = [decide.enqueued(task, now) for task in tasks]
        yield from record(self._recorder, record_id, now, events, counted(tasks))
        return inserted

    def insert_alike(
        self, group: AlikeTasks, *, now: float, record_id: int, hint: str
    ) -> Script[set[str] | None]:
        task, ids = group.model.task, group.ids()
        record_id = yield from self._recorder.record_ref(record_id)
        rows = list(zip(ids, group.payloads(), strict=True))
        changed = yield _alike(task, rows, now, str(record_id))
        new = None
        if changed[0] != len(ids):
            written = yield call("changed_by", ids=ids, record_id=str(record_id))
            new = {row[0] for row in written}
            ids = [task_id for task_id in ids if task_id in new]
        if task.tags_json is not None:
            yield from tags.add([replace(task, id=task_id) for task_id in ids])
        if ids:
            yield from self._recorder.record(
                record_id=record_id,
                now=now,
                events_json=enqueued_alike(task, ids, now),
                events_count=len(ids),
                deltas_json=alike_deltas(task, len(ids)),
            )
        return new

    def start_one(
        self, task: Task, claim: ClaimRequest, *, now: float
    ) -> tuple[StatementCall, Task] | None:
        if task.queue not in claim.queues or task.type not in claim.types:
            return None
        if claim.projects is not None and task.project not in claim.projects:
            return None
        if task.due_at > task.created_at:  # A delay counts from the commit.
            return None
        born = inserted_at(task, now)
        moved = decide.claim(born, node=claim.node, lease_seconds=claim.lease_seconds, now=now)
        after = moved.after
        params = insert_started(moved, now)
        params["queues"] = claim.queues
        params["node"] = after.node
        params["lease_until"] = after.lease_until
        return StatementCall("start_one", params), after

    def claim(
        self, claim: ClaimRequest, *, now: float, record_id: int
    ) -> Script[tuple[Claimed, Aside]]:
        places = yield from _scan_next(claim, now)
        row_ids = [row_id for row_id, _ in places]
        if any(is_aside for _, is_aside in places):
            picked = yield from in_turn((yield call("get_rows", row_ids=row_ids)), now)
            limits = yield from lock_of(picked, wait=True)
            claimed = yield from claim_these(
                picked, claim, limits, now=now, record_id=record_id, recorder=self._recorder
            )
            return claimed, NONE_ASIDE
        return Claimed((yield from self._take(row_ids, claim, now, record_id))), NONE_ASIDE

    def claim_next(self, claim: ClaimRequest, *, now: float, record_id: int) -> Script[list[Task]]:
        places = yield from _scan_next(replace(claim, limit=1), now)
        row_ids = [row_id for row_id, is_aside in places if not is_aside]
        return (yield from self._take(row_ids, claim, now, record_id))

    def _take(
        self, row_ids: list[int], claim: ClaimRequest, now: float, record_id: int
    ) -> Script[list[Task]]:
        if not row_ids:
            return []
        record_id = yield from self._recorder.record_ref(record_id)
        yield call(
            "take_rows",
            row_ids=row_ids,
            now=now,
            node=claim.node,
            lease_seconds=claim.lease_seconds,
            claim_id=claim.claim_id,
            own_lease_seconds=claim.own_lease_seconds,
            record_id=str(record_id),
        )
        taken: list[Task] = yield call("get_rows", row_ids=row_ids)
        yield from self._record_started(taken, now, record_id)
        return taken

    def _record_started(self, taken: list[Task], now: float, record_id: int) -> Script[None]:
        """Most claims are of tasks of one kind that have not run before: their events differ in the id."""
        kinds = {
            (t.type, t.project, t.queue, t.priority, t.version, t.attempts, t.fence) for t in taken
        }
        if len(kinds) == 1:
            yield from self._recorder.record(
                record_id=record_id,
                now=now,
                events_json=started_alike(taken, now),
                events_count=len(taken),
                deltas_json=shifted_alike(taken[0], len(taken), Status.QUEUED, Status.RUNNING),
            )
            return
        events = [decide.started(task, now) for task in taken]
        deltas = shifted(taken, Status.QUEUED, Status.RUNNING)
        yield from record(self._recorder, record_id, now, events, deltas)

    def complete_plain(
        self, done: Sequence[Transition], *, now: float, record_id: int
    ) -> Script[set[str]]:
        record_id = yield from self._recorder.record_ref(record_id)
        changed = yield _completion(done, now, str(record_id))
        ids = {move.before.id for move in done}
        if changed[0] != len(done):
            written = yield call("changed_by", ids=sorted(ids), record_id=str(record_id))
            ids = {row[0] for row in written}
            done = [move for move in done if move.after.id in ids]
        events = [move.events[0] for move in done]
        deltas = shifted([move.after for move in done], Status.RUNNING, Status.COMPLETED)
        yield from record(self._recorder, record_id, now, events, deltas)
        return ids

    def rehearse(self, claim: ClaimRequest, *, now: float) -> Sequence[StatementCall]:
        """Nothing to prepare: there is one connection with one cache of statements."""
        return ()


def _insertion(tasks: Sequence[Task], now: float, record_id: str) -> StatementCall:
    """The insert of plain tasks. Those of one type with the same options differ only in id and payload."""
    if is_one_shape(tasks):
        alike = [(task.id, task.payload_json) for task in tasks]
        return _alike(tasks[0], alike, now, record_id)
    rows: list[tuple[Any, ...]] = [
        (*plain_values(task), task.due_at - task.created_at) for task in tasks
    ]
    return call_rows("insert_plain", rows, now=now, record_id=record_id)


def _alike(
    task: Task, rows: Sequence[tuple[str, str]], now: float, record_id: str
) -> StatementCall:
    """The insert of tasks that share all values but these. `task`: one of them."""
    shared = dict(zip(SHAPE, shape_values(task), strict=True))
    delay = task.due_at - task.created_at
    return call_rows(
        "insert_alike", list(rows), **shared, delay=delay, now=now, record_id=record_id
    )


def _completion(done: Sequence[Transition], now: float, record_id: str) -> StatementCall:
    """The update of completed tasks. First runs with the same result differ only in the id."""
    alike = {(move.before.fence, move.before.version, move.after.result_json) for move in done}
    if len(alike) == 1:
        [(fence, version, result_json)] = alike
        return call(
            "complete_alike",
            ids=[move.before.id for move in done],
            fence=fence,
            version=version,
            result_json=result_json,
            now=now,
            record_id=record_id,
        )
    rows: list[tuple[Any, ...]] = [
        (move.before.id, move.before.fence, move.before.version, move.after.result_json)
        for move in done
    ]
    return call_rows("complete_plain", rows, now=now, record_id=record_id)


def _scan_next(claim: ClaimRequest, now: float) -> Script[list[tuple[int, int]]]:
    """The row ids of the next tasks in order, and whether the general path claims each."""
    queues = yield from open_queues(claim.queues)
    places: list[tuple[int, int]] = []
    for priority in Priority:
        for queue in queues:
            missing = claim.limit - len(places)
            if missing > 0:
                places += yield lane("scan_lane", queue, priority, claim, due=now, limit=missing)
    return places


def lane(
    statement: str,
    queue: str,
    priority: Priority,
    claim: ClaimRequest,
    *,
    due: float,
    limit: int,
) -> StatementCall:
    """Reads the first due tasks of one queue and priority."""
    return call(
        statement,
        queue=queue,
        priority=int(priority),
        types=claim.types,
        projects=claim.projects,
        now=due,
        limit=limit,
    )


def open_queues(queues: Sequence[str]) -> Script[list[str]]:
    """The queues that are not paused, of these."""
    rows = yield call("queues")
    paused = {name for name, paused_at, *_ in rows if paused_at is not None}
    return [name for name in queues if name not in paused]
