"""The dialect of PostgreSQL: offsets are assigned after the commit, and scans start at a floor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from holdfast.core.claiming import ClaimRequest
from holdfast.core.task import Priority, Task
from holdfast.store.fast.floors import SLACK_SECONDS, Floors, Place
from holdfast.store.fast.lanes import Lanes
from holdfast.store.fast.postgres import PostgresFast
from holdfast.store.script import Script, call
from holdfast.store.scripts import cascade

BATCH: Final = 50_000
"""Records that one statement numbers or counts, which takes about a second."""


class PostgresDialect:
    """See `holdfast.store.port.Dialect`."""

    __slots__ = ("_floors", "_lanes", "_monotonic", "cascade_batch", "fast")
    one_writer = False

    def __init__(self, monotonic: Callable[[], float], cascade_batch: int = cascade.BATCH) -> None:
        self.cascade_batch = cascade_batch
        self._monotonic = monotonic
        self._floors = Floors(monotonic)
        self._lanes = Lanes(monotonic)
        self.fast = PostgresFast(self._lanes)

    def record(
        self, *, record_id: int, now: float, events_json: str, events_count: int, deltas_json: str
    ) -> Script[None]:
        # The general path may queue tasks that were due long ago, below a floor.
        self._lanes.distrust()
        yield call(
            "append_record",
            record_id=str(record_id),
            now=now,
            events_json=events_json,
            events_count=events_count,
            deltas_json=deltas_json,
        )

    def record_ref(self, record_id: int) -> Script[int]:
        """A record is referenced by its id, because its offset is assigned later."""
        yield from ()
        return record_id

    def assign_offsets(self) -> Script[bool]:
        return bool((yield call("number_records", most=BATCH))[0][0])

    def update_counters(self) -> Script[bool]:
        return bool((yield call("count_records", most=BATCH))[0][0])

    def prune_feed(self, *, before: float, limit: int) -> Script[int]:
        rows = yield call("prune_feed", before=before, limit=limit)
        return int(rows[0][0])

    def prune_tasks(self, *, before: float, dead_before: float, limit: int) -> Script[int]:
        started_at, start = self._monotonic(), self._floors.start("finished")
        rows = yield call(
            "prune_tasks", before=before, dead_before=dead_before, limit=limit, floor=start[0]
        )
        gone, through = rows[0]
        floor = before - SLACK_SECONDS
        floor = min(floor, through) if gone == limit else floor
        self._floors.learn("finished", start=start, nothing_below=(floor, 0), started_at=started_at)
        return int(gone)

    def delete_tasks(self, ids: Sequence[str]) -> Script[list[str]]:
        rows = yield call("delete_tasks", ids=list(ids))
        return [row[0] for row in rows]

    def hint(self, text: str) -> Script[None]:
        if text:
            yield call("hint", hint=text)

    def pick_aged(
        self, claim: ClaimRequest, *, now: float, ageing_seconds: float, below: Priority
    ) -> Script[list[Task]]:
        look = self._lanes.look(claim)
        tasks: list[Task] = yield call(
            "pick_aged",
            queues=claim.queues,
            **look.params(),
            types=claim.types,
            projects=claim.projects,
            limit=claim.limit,
            now=now,
            ageing_seconds=ageing_seconds,
            below=below.value,
        )
        look.aged(tasks, horizon=now - ageing_seconds, below=below)
        return tasks

    def owned(self, node: str) -> Script[list[Any]]:
        return (yield call("owned_tasks", node=node, floor=self._floors.start("lease")[0]))

    def ending_leases(self, *, now: float, limit: int) -> Script[list[Any]]:
        started_at, start = self._monotonic(), self._floors.start("lease")
        rows = yield call("ending_leases", now=now, limit=limit, floor=start[0])
        first = [row["lease_until"] for row in rows[:1]]
        self._found_lease(first, now, start=start, started_at=started_at)
        return rows

    def next_upkeep(self, *, now: float) -> Script[Any]:
        started_at, start = self._monotonic(), self._floors.start("lease")
        row = (yield call("next_upkeep", floor=start[0]))[0]
        first = [] if row["lease_at"] is None else [row["lease_at"]]
        self._found_lease(first, now, start=start, started_at=started_at)
        return row

    def _found_lease(
        self, first: list[float], now: float, *, start: Place, started_at: float
    ) -> None:
        """The next scan for leases starts at the first one that a scan from `start` has found."""
        floor = min([now - SLACK_SECONDS, *first])
        self._floors.learn("lease", start=start, nothing_below=(floor, 0), started_at=started_at)
