"""What SQLite does in a way of its own: one writer, so reads inside a transaction need no locks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from msgspec.structs import replace

from holdfast.core import decide
from holdfast.core.claiming import Claimed, ClaimRequest
from holdfast.core.decide import Transition
from holdfast.core.submit import Submission
from holdfast.core.task import Priority, Status, Task
from holdfast.store.one import insert_one, insert_started
from holdfast.store.script import Script, StatementCall, call, call_rows
from holdfast.store.scripts import cascade
from holdfast.store.scripts.claim import claim_these
from holdfast.store.scripts.limits import lock_of
from holdfast.store.scripts.work import counted, record, shifted
from holdfast.store.sqlite import rows as rows_of

BATCH: Final = 20_000
"""Records that one transaction counts: nothing else is written meanwhile."""


class SqliteDialect:
    """See `holdfast.store.port.Dialect`."""

    __slots__ = ("cascade_batch",)
    one_writer = True

    def __init__(self, cascade_batch: int = cascade.BATCH) -> None:
        self.cascade_batch = cascade_batch

    def record(
        self, *, record_id: int, now: float, events_json: str, events_count: int, deltas_json: str
    ) -> Script[None]:
        yield call(
            "record_facts",
            record_id=record_id,
            now=now,
            events_json=events_json,
            events_count=events_count,
            deltas_json=deltas_json,
        )

    def record_ref(self, record_id: int) -> Script[int]:
        """A record is found by its offset; with one writer that is known beforehand."""
        rows = yield call("next_offset")
        return int(rows[0][0])

    def assign_offsets(self) -> Script[bool]:
        """Offsets are given as records are written."""
        yield from ()
        return True

    def update_counters(self) -> Script[bool]:
        yield call("count_records", most=BATCH)
        return bool((yield call("mark_counted", most=BATCH))[0][0])

    def prune_feed(self, *, before: float, limit: int) -> Script[int]:
        gone = yield call("prune_feed", before=before, limit=limit)
        if gone:
            yield call("forget_before", oldest=max(first + n for first, n in gone))
        return len(gone)

    def prune_tasks(self, *, before: float, dead_before: float, limit: int) -> Script[int]:
        gone = yield call("prune_tasks", before=before, dead_before=dead_before, limit=limit)
        if gone:
            counts = Counter(tuple(row[1:]) for row in gone)
            yield call_rows("adjust_counters", [(*key, -n) for key, n in counts.items()])
            yield call("forget_steps", ids=[row[0] for row in gone])
        return len(gone)

    def hint(self, text: str) -> Script[None]:
        """Other processes notice by the file's version."""
        yield from ()

    def insert_one(self, task: Task, *, now: float, record_id: int, hint: str) -> StatementCall:
        return StatementCall("insert_one", insert_one(task, now))

    def insert_plain(
        self, group: Sequence[Submission], *, now: float, record_id: int, hint: str
    ) -> Script[set[str]]:
        if len(group) == 1:
            task = group[0].task
            yield self.insert_one(task, now=now, record_id=record_id, hint=hint)
            return {task.id}
        record_id = yield from self.record_ref(record_id)
        ids = [submission.task.id for submission in group]
        rows = [rows_of.insert_row(submission) for submission in group]
        changed = yield call_rows("insert_plain", rows, now=now, record_id=str(record_id))
        inserted = set(ids)
        if changed[0] != len(group):
            found = yield call("changed_by", ids=ids, record_id=str(record_id))
            inserted = {row[0] for row in found}
        tasks = [each.task for each in group if each.task.id in inserted]
        events = [decide.enqueued(task, now) for task in tasks]
        yield from record(self, record_id, now, events, counted(tasks))
        return inserted

    def claim(
        self, claim: ClaimRequest, *, now: float, record_id: int
    ) -> Script[tuple[Claimed, list[str]]]:
        found = yield from self._scan_next(claim, now)
        row_ids = [row_id for row_id, _ in found]
        if any(limited for _, limited in found):
            picked = yield call("get_rows", row_ids=row_ids)
            limits = yield from lock_of(picked, wait=True)
            claimed = yield from claim_these(
                picked, claim, limits, now=now, record_id=record_id, recorder=self
            )
            return claimed, []
        return Claimed((yield from self._take(row_ids, claim, now, record_id))), []

    def _take(
        self, row_ids: list[int], claim: ClaimRequest, now: float, record_id: int
    ) -> Script[list[Task]]:
        if not row_ids:
            return []
        record_id = yield from self.record_ref(record_id)
        node, lease = claim.node, claim.lease_seconds
        yield call(
            "take_rows",
            row_ids=row_ids,
            now=now,
            node=node,
            lease_seconds=lease,
            record_id=str(record_id),
        )
        taken: list[Task] = yield call("get_rows", row_ids=row_ids)
        events = [decide.started(task, now) for task in taken]
        yield from record(
            self, record_id, now, events, shifted(taken, Status.QUEUED, Status.RUNNING)
        )
        return taken

    def rehearse(self, claim: ClaimRequest, *, now: float) -> Sequence[StatementCall]:
        return ()

    def claim_next(self, claim: ClaimRequest, *, now: float, record_id: int) -> Script[list[Task]]:
        found = yield from self._scan_next(replace(claim, limit=1), now)
        row_ids = [row_id for row_id, limited in found if not limited]
        return (yield from self._take(row_ids, claim, now, record_id))

    def start_one(
        self, task: Task, claim: ClaimRequest, *, now: float
    ) -> tuple[StatementCall, Task] | None:
        if task.queue not in claim.queues or task.type not in claim.types:
            return None
        if task.due_at > task.created_at:  # A delay counts from the commit.
            return None
        born = replace(task, created_at=now, updated_at=now, due_at=now)
        moved = decide.claim(born, node=claim.node, lease_seconds=claim.lease_seconds, now=now)
        after = moved.after
        params = insert_started(moved, now)
        params["queues"] = claim.queues
        params["node"] = after.node
        params["lease_until"] = after.lease_until
        return StatementCall("start_one", params), after

    def _scan_next(self, claim: ClaimRequest, now: float) -> Script[list[tuple[int, int]]]:
        """Where the next tasks are, in order."""
        queues = yield from self._open_queues(claim.queues)
        found: list[tuple[int, int]] = []
        for priority in Priority:
            for queue in queues:
                wanted = claim.limit - len(found)
                if wanted > 0:
                    found += yield self._lane("scan_lane", queue, priority, claim, now, wanted)
        return found

    def pick_aged(
        self, claim: ClaimRequest, *, now: float, ageing_seconds: float, below: Priority
    ) -> Script[list[Task]]:
        queues = yield from self._open_queues(claim.queues)
        picked: list[Task] = []
        for priority in [each for each in Priority if each > below]:
            for queue in queues:
                picked += yield self._lane(
                    "pick_lane", queue, priority, claim, now - ageing_seconds, claim.limit
                )
        return sorted(picked, key=lambda task: task.due_at)[: claim.limit]

    def _lane(
        self,
        statement: str,
        queue: str,
        priority: Priority,
        claim: ClaimRequest,
        due: float,
        limit: int,
    ) -> StatementCall:
        return call(
            statement,
            queue=queue,
            priority=int(priority),
            types=claim.types,
            now=due,
            limit=limit,
        )

    def _open_queues(self, queues: Sequence[str]) -> Script[list[str]]:
        rows = yield call("queues")
        paused = {name for name, paused_at, _, _ in rows if paused_at is not None}
        return [name for name in queues if name not in paused]

    def owned(self, node: str) -> Script[list[Any]]:
        return (yield call("owned_tasks", node=node))

    def ending_leases(self, *, now: float, limit: int) -> Script[list[Any]]:
        return (yield call("ending_leases", now=now, limit=limit))

    def complete_plain(
        self, done: Sequence[Transition], *, now: float, record_id: int
    ) -> Script[set[str]]:
        record_id = yield from self.record_ref(record_id)
        rows = [rows_of.complete_row(each) for each in done]
        changed = yield call_rows("complete_plain", rows, now=now, record_id=str(record_id))
        ids = {row[0] for row in rows}
        if changed[0] != len(rows):
            found = yield call("changed_by", ids=sorted(ids), record_id=str(record_id))
            ids = {row[0] for row in found}
            done = [each for each in done if each.after.id in ids]
        events = [each.events[0] for each in done]
        ended = [each.after for each in done]
        yield from record(
            self, record_id, now, events, shifted(ended, Status.RUNNING, Status.COMPLETED)
        )
        return ids
