"""The dialect of SQLite. It has one writer, so reads inside a transaction need no locks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from holdfast.core.claiming import ClaimRequest
from holdfast.core.task import Priority, Task
from holdfast.store.fast.sqlite import SqliteFast, lane, open_queues
from holdfast.store.script import Script, call, call_rows
from holdfast.store.scripts import cascade

BATCH: Final = 20_000
"""Records that one transaction counts. It blocks all other writes."""
_BELONGINGS: Final = (
    "forget_steps",
    "forget_decisions",
    "forget_checkpoints",
    "forget_interventions",
    "forget_output",
    "forget_metrics",
    "forget_windows",
    "forget_members",
    "forget_tags",
)
"""The statements that delete what belongs to tasks."""


class SqliteDialect:
    """See `holdfast.store.port.Dialect`."""

    __slots__ = ("cascade_batch", "fast")
    one_writer = True

    def __init__(self, cascade_batch: int = cascade.BATCH) -> None:
        self.cascade_batch = cascade_batch
        self.fast = SqliteFast(self)

    def record(
        self, *, record_id: int, now: float, events_json: str, events_count: int, deltas_json: str
    ) -> Script[None]:
        yield call(
            "append_record",
            record_id=record_id,
            now=now,
            events_json=events_json,
            events_count=events_count,
            deltas_json=deltas_json,
        )

    def record_ref(self, record_id: int) -> Script[int]:
        """A record is referenced by its offset, which one writer can read in advance."""
        rows = yield call("next_offset")
        return int(rows[0][0])

    def assign_offsets(self) -> Script[bool]:
        """Does nothing: records get their offset when they are written."""
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
        return len((yield from self._forget(gone)))

    def delete_tasks(self, ids: Sequence[str]) -> Script[list[str]]:
        return (yield from self._forget((yield call("delete_tasks", ids=list(ids)))))

    def _forget(self, gone: list[Any]) -> Script[list[str]]:
        """Removes what belongs to tasks that were deleted. Returns their ids."""
        ids = [row[0] for row in gone]
        if ids:
            counts = Counter(tuple(row[1:]) for row in gone)
            yield call_rows("adjust_counters", [(*key, -n) for key, n in counts.items()])
            for statement in _BELONGINGS:
                yield call(statement, ids=ids)
        return ids

    def hint(self, text: str) -> Script[None]:
        """Does nothing: other processes poll the data version of the file."""
        yield from ()

    def pick_aged(
        self, claim: ClaimRequest, *, now: float, ageing_seconds: float, below: Priority
    ) -> Script[list[Task]]:
        queues = yield from open_queues(claim.queues)
        picked: list[Task] = []
        for priority in [priority for priority in Priority if priority > below]:
            for queue in queues:
                picked += yield lane(
                    "pick_lane",
                    queue,
                    priority,
                    claim,
                    due=now - ageing_seconds,
                    limit=claim.limit,
                )
        return sorted(picked, key=lambda task: task.due_at)[: claim.limit]

    def owned(self, node: str) -> Script[list[Any]]:
        return (yield call("owned_tasks", node=node))

    def ending_leases(self, *, now: float, limit: int) -> Script[list[Any]]:
        return (yield call("ending_leases", now=now, limit=limit))

    def next_upkeep(self, *, now: float) -> Script[Any]:
        return (yield call("next_upkeep"))[0]
