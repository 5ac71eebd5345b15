"""What PostgreSQL does in a way of its own: whole verbs in one statement, numbering of the feed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any, Final, TypeAlias

import msgspec
from msgspec.structs import replace

from holdfast.core.claiming import Claimed, ClaimRequest
from holdfast.core.decide import Transition
from holdfast.core.submit import Submission
from holdfast.core.task import Priority, Status, Task
from holdfast.store.columns import SHAPE, shape_values
from holdfast.store.one import enqueued_tail, insert_one
from holdfast.store.postgres.connection import to_task
from holdfast.store.postgres.floors import SLACK_SECONDS, Floors
from holdfast.store.postgres.lanes import Lanes, firsts_of
from holdfast.store.script import Script, StatementCall, call
from holdfast.store.scripts import cascade
from holdfast.store.scripts.work import counted, deltas_json, shifted

encode: Final = msgspec.json.Encoder().encode
BATCH: Final = 50_000
"""Records that one statement numbers or counts: about a second's work."""
Shape: TypeAlias = tuple[Any, ...]
"""What many tasks have in common: the columns `SHAPE`, and the delay."""


def shape_of(task: Task) -> Shape:
    return (*shape_values(task), task.due_at - task.created_at)


def events_of(tasks: Sequence[Task], places: Sequence[int], now: float) -> str:
    """The events of an enqueue as JSON. What a shape shares is encoded once; ids of ours are plain text."""
    head = f'["task.enqueued",{now!r},"'
    tails: dict[int, str] = {}
    for task, place in zip(tasks, places, strict=True):
        if place not in tails:
            delay = task.due_at - task.created_at
            tails[place] = enqueued_tail(task.type, task.queue, task.priority, delay, now)
    events = [f"{head}{t.id}{tails[place]}" for t, place in zip(tasks, places, strict=True)]
    return f"[{','.join(events)}]"


class PostgresDialect:
    """See `holdfast.store.port.Dialect`."""

    __slots__ = ("_floors", "_lanes", "_monotonic", "cascade_batch")
    one_writer = False

    def __init__(self, monotonic: Callable[[], float], cascade_batch: int = cascade.BATCH) -> None:
        self.cascade_batch = cascade_batch
        self._monotonic = monotonic
        self._floors = Floors(monotonic)
        self._lanes = Lanes(monotonic)

    def record(
        self, *, record_id: int, now: float, events_json: str, events_count: int, deltas_json: str
    ) -> Script[None]:
        # Whatever goes the general way may let tasks in that have been due for long.
        self._lanes.distrust()
        yield call(
            "record_facts",
            record_id=str(record_id),
            now=now,
            events_json=events_json,
            events_count=events_count,
            deltas_json=deltas_json,
        )

    def record_ref(self, record_id: int) -> Script[int]:
        """A record is found by its id; its offset comes later."""
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
        begun, start = self._monotonic(), self._floors.start("finished")
        rows = yield call(
            "prune_tasks", before=before, dead_before=dead_before, limit=limit, floor=start[0]
        )
        gone, through = rows[0]
        seen = before - SLACK_SECONDS
        seen = min(seen, through) if gone == limit else seen
        self._floors.learn("finished", start=start, nothing_below=(seen, 0), begun=begun)
        return int(gone)

    def hint(self, text: str) -> Script[None]:
        if text:
            yield call("hint", hint=text)

    def insert_one(self, task: Task, *, now: float, record_id: int, hint: str) -> StatementCall:
        params = insert_one(task, now)
        params["record_id"] = str(record_id)
        params["hint"] = hint
        return StatementCall("insert_one", params)

    def insert_plain(
        self, group: Sequence[Submission], *, now: float, record_id: int, hint: str
    ) -> Script[set[str]]:
        if len(group) == 1:
            task = group[0].task
            yield self.insert_one(task, now=now, record_id=record_id, hint=hint)
            return {task.id}
        tasks = [submission.task for submission in group]
        shapes: dict[Shape, int] = {}
        places = [shapes.setdefault(shape_of(task), len(shapes) + 1) for task in tasks]
        ids = [task.id for task in tasks]
        yield call(
            "insert_plain",
            ids="\n".join(ids),
            payloads=f"[{','.join([task.payload_json for task in tasks])}]",
            places=",".join(map(str, places)),
            **dict(zip((*SHAPE, "delay"), zip(*shapes, strict=True), strict=True)),
            events_count=len(group),
            events_json=events_of(tasks, places, now),
            deltas_json=deltas_json(counted(tasks)),
            now=now,
            record_id=str(record_id),
            hint=hint,
        )
        return set(ids)

    def claim(
        self, claim: ClaimRequest, *, now: float, record_id: int
    ) -> Script[tuple[Claimed, list[str]]]:
        look = self._lanes.look(claim)
        records = yield call(
            "claim_plain",
            queues=claim.queues,
            **look.params(),
            types=claim.types,
            limit=claim.limit,
            **_taking(claim, now, record_id),
        )
        limited = records[0]["limited"] or []
        taken = [record for record in records if record["id"] is not None]
        taken.sort(key=itemgetter("priority", "due_at", "nth"))
        look_again, blind_seconds = look.claimed(
            firsts_of(map(itemgetter("queue", "priority", "due_at", "nth"), taken)),
            picked=len(taken) + len(limited),
            now=now,
            limited_due_at=records[0]["limited_due_at"],
        )
        tasks = [to_task(record[3:]) for record in taken]
        return Claimed(tasks, look_again=look_again, blind_seconds=blind_seconds), limited

    def rehearse(self, claim: ClaimRequest, *, now: float) -> Sequence[StatementCall]:
        nothing = replace(claim, queues=())
        return (
            next(self.claim(nothing, now=now, record_id=0)),
            next(self.claim_next(nothing, now=now, record_id=0)),
            next(self.complete_plain([], now=now, record_id=0)),
            call("first_due", queues=[]),
            call("next_due", queues=[], now=now),
        )

    def claim_next(self, claim: ClaimRequest, *, now: float, record_id: int) -> Script[list[Task]]:
        return (
            yield call(
                "claim_next",
                queues="\n".join(claim.queues),
                types="\n".join(claim.types),
                **self._lanes.look(claim).texts(),
                **_taking(claim, now, record_id),
            )
        )

    def start_one(
        self, task: Task, claim: ClaimRequest, *, now: float
    ) -> tuple[StatementCall, Task] | None:
        """Whether anything is before it in line cannot be known here without locking the line."""
        return None

    def pick_aged(
        self, claim: ClaimRequest, *, now: float, ageing_seconds: float, below: Priority
    ) -> Script[list[Task]]:
        look = self._lanes.look(claim)
        tasks: list[Task] = yield call(
            "pick_aged",
            queues=claim.queues,
            **look.params(),
            types=claim.types,
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
        begun, start = self._monotonic(), self._floors.start("lease")
        rows = yield call("ending_leases", now=now, limit=limit, floor=start[0])
        seen = min([now - SLACK_SECONDS, *(row["lease_until"] for row in rows[:1])])
        self._floors.learn("lease", start=start, nothing_below=(seen, 0), begun=begun)
        return rows

    def complete_plain(
        self, done: Sequence[Transition], *, now: float, record_id: int
    ) -> Script[set[str]]:
        before = [each.before for each in done]
        results = [each.after.result_json or "null" for each in done]
        written = yield call(
            "complete_plain",
            ids="\n".join([task.id for task in before]),
            fences=",".join([str(task.fence) for task in before]),
            versions=",".join([str(task.version) for task in before]),
            results=f"[{','.join(results)}]",
            events_json=encode([each.events[0] for each in done]).decode(),
            deltas_json=deltas_json(shifted(before, Status.RUNNING, Status.COMPLETED)),
            count=len(done),
            now=now,
            record_id=str(record_id),
        )
        return {row[0] for row in written}


def _taking(claim: ClaimRequest, now: float, record_id: int) -> dict[str, Any]:
    """Who takes, and the constant parts of the facts."""
    return {
        "now": now,
        "node": claim.node,
        "lease_seconds": claim.lease_seconds,
        "record_id": str(record_id),
        "fact_head": f'["task.started",{now!r},',
        "event_node": f',{{"node":{encode(claim.node).decode()},"attempt":',
    }
