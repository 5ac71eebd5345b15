"""What SQLite does in a way of its own: one writer, so reads inside a transaction need no locks."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core import decide
from holdfast.core.decide import Transition
from holdfast.core.submit import Submission
from holdfast.core.task import Priority, Task
from holdfast.store.claims import Claim, Claimed
from holdfast.store.script import Call, Script, call, call_rows
from holdfast.store.scripts.claim import claim_these
from holdfast.store.scripts.work import counted, record
from holdfast.store.sqlite import rows as rows_of


class SqliteDialect:
    """See `holdfast.store.port.Dialect`."""

    __slots__ = ()

    def record(
        self, *, batch: int, now: float, facts_json: str, facts_count: int, deltas_json: str
    ) -> Script[None]:
        yield call(
            "record_facts",
            batch=batch,
            now=now,
            facts_json=facts_json,
            facts_count=facts_count,
            deltas_json=deltas_json,
        )
        yield call("advance_head", facts_count=facts_count)

    def number(self) -> Script[None]:
        """Offsets are given as records are written."""
        yield from ()

    def fold(self) -> Script[None]:
        yield call("count_records")
        yield call("mark_counted")

    def hint(self, text: str) -> Script[None]:
        """Other processes notice by the file's version."""
        yield from ()

    def insert_plain(
        self, group: Sequence[Submission], *, now: float, batch: int, hint: str
    ) -> Script[set[str]]:
        rows = [rows_of.insert_row(submission) for submission in group]
        changed = yield call_rows("insert_plain", rows, now=now, batch=str(batch))
        if changed[0] != len(group):
            found = yield call("changed_by", ids=[row[0] for row in rows], batch=str(batch))
            inserted = {row[0] for row in found}
        else:
            inserted = {row[0] for row in rows}
        tasks = [each.task for each in group if each.task.id in inserted]
        facts = [decide.enqueued(task, now) for task in tasks]
        yield from record(self, batch, now, facts, counted(tasks))
        return inserted

    def claim(self, claim: Claim, *, now: float, batch: int) -> Script[tuple[Claimed, list[Task]]]:
        picked = yield from self._pick_next(claim, now)
        if any(task.limits for task in picked):
            claimed = yield from claim_these(picked, claim, now=now, batch=batch, recorder=self)
            return claimed, []
        if picked:
            yield call(
                "take_tasks",
                ids=[task.id for task in picked],
                now=now,
                node=claim.node,
                lease_seconds=claim.lease_seconds,
                batch=str(batch),
            )
        node, lease = claim.node, claim.lease_seconds
        moved = [decide.claim(task, node=node, lease_seconds=lease, now=now) for task in picked]
        yield from self._record_moves(moved, now, batch)
        return Claimed([each.after for each in moved]), []

    def _pick_next(self, claim: Claim, now: float) -> Script[list[Task]]:
        queues = yield from self._open_queues(claim.queues)
        picked: list[Task] = []
        for priority in Priority:
            for queue in queues:
                wanted = claim.limit - len(picked)
                if wanted > 0:
                    picked += yield self._lane(queue, priority, claim, now, wanted)
        return picked

    def pick_aged(self, claim: Claim, *, now: float, ageing_seconds: float) -> Script[list[Task]]:
        queues = yield from self._open_queues(claim.queues)
        picked: list[Task] = []
        for priority in (Priority.HIGH, Priority.NORMAL, Priority.LOW):
            for queue in queues:
                picked += yield self._lane(
                    queue, priority, claim, now - ageing_seconds, claim.limit
                )
        return sorted(picked, key=lambda task: task.due_at)[: claim.limit]

    def _lane(self, queue: str, priority: Priority, claim: Claim, due: float, limit: int) -> Call:
        return call(
            "pick_lane",
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

    def complete_plain(
        self, done: Sequence[Transition], *, now: float, batch: int
    ) -> Script[set[str]]:
        rows = [rows_of.complete_row(each) for each in done]
        changed = yield call_rows("complete_plain", rows, now=now, batch=str(batch))
        ids = {row[0] for row in rows}
        if changed[0] != len(rows):
            found = yield call("changed_by", ids=sorted(ids), batch=str(batch))
            ids = {row[0] for row in found}
            done = [each for each in done if each.after.id in ids]
        yield from self._record_moves(done, now, batch)
        return ids

    def _record_moves(self, moved: Sequence[Transition], now: float, batch: int) -> Script[None]:
        deltas = counted(each.after for each in moved)
        deltas.subtract(counted(each.before for each in moved))
        yield from record(self, batch, now, [each.facts[0] for each in moved], deltas)
