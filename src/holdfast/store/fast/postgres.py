"""The shortcuts of PostgreSQL: a verb is one statement, so one round trip and one commit."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Any, Final, TypeAlias

import msgspec
from msgspec.structs import replace

from holdfast.core.claiming import Claimed, ClaimRequest
from holdfast.core.decide import Transition
from holdfast.core.submit import Submission
from holdfast.core.task import Status, Task
from holdfast.store.columns import SHAPE, shape_values, to_task
from holdfast.store.fast.lanes import Lanes, firsts_of
from holdfast.store.fast.texts import enqueued_tail, insert_one
from holdfast.store.port import Aside
from holdfast.store.script import Script, StatementCall, call
from holdfast.store.scripts.work import counted, deltas_json, shifted

encode: Final = msgspec.json.Encoder().encode
Shape: TypeAlias = tuple[Any, ...]
"""The values that many tasks share: the columns `SHAPE`, and the delay."""


class PostgresFast:
    """See `holdfast.store.port.FastPaths`."""

    __slots__ = ("_lanes",)

    def __init__(self, lanes: Lanes) -> None:
        self._lanes = lanes

    def insert_one(self, task: Task, *, now: float, record_id: int, hint: str) -> StatementCall:
        params = insert_one(task, now)
        params["record_id"] = str(record_id)
        params["hint"] = hint
        return StatementCall("insert_one", params)

    def insert_plain(
        self, group: Sequence[Submission], *, now: float, record_id: int, hint: str
    ) -> Script[set[str]]:
        tasks = [submission.task for submission in group]
        if len(tasks) == 1:
            yield self.insert_one(tasks[0], now=now, record_id=record_id, hint=hint)
            return {tasks[0].id}
        shapes, places = _shapes(tasks)
        ids = [task.id for task in tasks]
        yield call(
            "insert_plain",
            ids="\n".join(ids),
            payloads=f"[{','.join([task.payload_json for task in tasks])}]",
            places=",".join(map(str, places)),
            **dict(zip((*SHAPE, "delay"), zip(*shapes, strict=True), strict=True)),
            events_count=len(tasks),
            events_json=_events_json(tasks, places, now),
            deltas_json=deltas_json(counted(tasks)),
            now=now,
            record_id=str(record_id),
            hint=hint,
        )
        return set(ids)

    def start_one(
        self, task: Task, claim: ClaimRequest, *, now: float
    ) -> tuple[StatementCall, Task] | None:
        """Returns None: only a lock on the whole line could show that no other task is before it."""
        return None

    def claim(
        self, claim: ClaimRequest, *, now: float, record_id: int
    ) -> Script[tuple[Claimed, Aside]]:
        look = self._lanes.look(claim)
        records = yield call(
            "claim_plain",
            queues=claim.queues,
            **look.params(),
            types=claim.types,
            projects=claim.projects,
            limit=claim.limit,
            **_taking(claim, now, record_id),
        )
        aside = Aside(records[0]["limited"] or [], records[0]["fair"] or [])
        taken = [record for record in records if record["id"] is not None]
        taken.sort(key=itemgetter("priority", "due_at", "nth"))
        look_again, blind_seconds = look.claimed(
            firsts_of(map(itemgetter("queue", "priority", "due_at", "nth"), taken)),
            picked=len(taken) + len(aside.limited) + len(aside.fair),
            now=now,
            limited_due_at=records[0]["aside_due_at"],
        )
        tasks = [to_task(record[4:]) for record in taken]
        return Claimed(tasks, look_again=look_again, blind_seconds=blind_seconds), aside

    def claim_next(self, claim: ClaimRequest, *, now: float, record_id: int) -> Script[list[Task]]:
        return (
            yield call(
                "claim_next",
                queues="\n".join(claim.queues),
                types="\n".join(claim.types),
                projects=None if claim.projects is None else "\n".join(claim.projects),
                **self._lanes.look(claim).texts(),
                **_taking(claim, now, record_id),
            )
        )

    def complete_plain(
        self, done: Sequence[Transition], *, now: float, record_id: int
    ) -> Script[set[str]]:
        before = [move.before for move in done]
        results = [move.after.result_json or "null" for move in done]
        written = yield call(
            "complete_plain",
            ids="\n".join([task.id for task in before]),
            fences=",".join([str(task.fence) for task in before]),
            versions=",".join([str(task.version) for task in before]),
            results=f"[{','.join(results)}]",
            events_json=encode([move.events[0] for move in done]).decode(),
            deltas_json=deltas_json(shifted(before, Status.RUNNING, Status.COMPLETED)),
            count=len(done),
            now=now,
            record_id=str(record_id),
        )
        return {row[0] for row in written}

    def rehearse(self, claim: ClaimRequest, *, now: float) -> Sequence[StatementCall]:
        nothing = replace(claim, queues=())
        return (
            next(self.claim(nothing, now=now, record_id=0)),
            next(self.claim_next(nothing, now=now, record_id=0)),
            next(self.complete_plain([], now=now, record_id=0)),
            call("first_due", queues=[]),
            call("next_due", queues=[], now=now),
        )


def _shapes(tasks: Sequence[Task]) -> tuple[list[Shape], list[int]]:
    """The shapes of the tasks, and the place of that of each, from 1 on. Most batches have one shape: then
    none is hashed."""
    values = list(map(shape_values, tasks))
    delays = [task.due_at - task.created_at for task in tasks]
    if values.count(values[0]) == len(values) and delays.count(delays[0]) == len(delays):
        return [(*values[0], delays[0])], [1] * len(values)
    shapes: dict[Shape, int] = {}
    places = [
        shapes.setdefault((*of_task, delay), len(shapes) + 1)
        for of_task, delay in zip(values, delays, strict=True)
    ]
    return list(shapes), places


def _events_json(tasks: Sequence[Task], places: Sequence[int], now: float) -> str:
    """The events of an enqueue as JSON. The tail is encoded once for each shape. Generated ids need no
    escaping."""
    head = f'["task.enqueued",{now!r},"'
    tails: dict[int, str] = {}
    for task, place in zip(tasks, places, strict=True):
        if place not in tails:
            tails[place] = enqueued_tail(task, task.due_at - task.created_at, now)
    events = [f"{head}{task.id}{tails[place]}" for task, place in zip(tasks, places, strict=True)]
    return f"[{','.join(events)}]"


def _taking(claim: ClaimRequest, now: float, record_id: int) -> dict[str, Any]:
    """The claiming node, and the constant parts of the events."""
    return {
        "now": now,
        "node": claim.node,
        "lease_seconds": claim.lease_seconds,
        "claim_id": claim.claim_id,
        "own_lease_seconds": claim.own_lease_seconds,
        "record_id": str(record_id),
        "event_head": f'["task.started",{now!r},',
        "event_node": f',{{"node":{encode(claim.node).decode()},"attempt":',
    }
