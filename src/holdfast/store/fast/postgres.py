"""The shortcuts of PostgreSQL: a verb is one statement, so one round trip and one commit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec
from msgspec.structs import replace

from holdfast.core.alike import AlikeTasks, parts_of
from holdfast.core.claiming import Claimed, ClaimRequest
from holdfast.core.decide import Transition
from holdfast.core.submit import Submission
from holdfast.core.task import Status, Task
from holdfast.store.columns import SHAPE, shape_values
from holdfast.store.fast.lanes import Lanes
from holdfast.store.fast.taken import in_line, tasks_of
from holdfast.store.fast.texts import (
    alike_deltas,
    enqueued_alike,
    enqueued_shapes,
    event_of_one,
    insert_one_recorded,
    is_one_shape,
    shared_by,
)
from holdfast.store.port import Aside, PreparedCall
from holdfast.store.script import Script, StatementCall, call, call_ahead
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
        values = insert_one_recorded(task, now, record_id, hint)
        return StatementCall("insert_one", {}, values=values)

    def prepare_insert(self, task: Task) -> PreparedCall:
        tail, deltas_json, before, after = shared_by(task)

        def statement(
            task_id: str, payload_json: str, now: float, record_id: int, hint: str
        ) -> StatementCall:
            head = (str(record_id), now, event_of_one(task_id, now, tail), deltas_json, hint)
            values = (*head, task_id, *before, payload_json, *after, now)
            return StatementCall("insert_one", {}, values=values)

        return statement

    def insert_plain(
        self, group: Sequence[Submission], *, now: float, record_id: int, hint: str
    ) -> Script[set[str]]:
        tasks = [submission.task for submission in group]
        if len(tasks) == 1:
            yield self.insert_one(tasks[0], now=now, record_id=record_id, hint=hint)
            return {tasks[0].id}
        ids = [task.id for task in tasks]
        if is_one_shape(tasks):
            texts = [task.payload_json for task in tasks]
            whole = Part(ids, texts, 0)
            params = _with_record(tasks[0], whole, ids, now=now, record_id=record_id)
            yield call("insert_alike", **params, hint=hint)
            return set(ids)
        shapes, places = _shapes(tasks)
        yield call(
            "insert_plain",
            ids="\n".join(ids),
            payloads=f"[{','.join([task.payload_json for task in tasks])}]",
            places=",".join(map(str, places)),
            **dict(zip((*SHAPE, "delay"), zip(*shapes, strict=True), strict=True)),
            events_count=len(tasks),
            events_json=enqueued_shapes(tasks, places, now),
            deltas_json=deltas_json(counted(tasks)),
            now=now,
            record_id=str(record_id),
            hint=hint,
        )
        return set(ids)

    def insert_alike(
        self, group: AlikeTasks, *, now: float, record_id: int, hint: str
    ) -> Script[set[str] | None]:
        for start, stop in parts_of(len(group)):
            part = Part(group.ids(start, stop), group.payloads(start, stop), start)
            if stop < len(group):
                yield call_ahead("insert_part", **_alike(group.model.task, part, now, record_id))
                continue
            params = _with_record(group.model.task, part, group.ids(), now=now, record_id=record_id)
            yield call_ahead("insert_alike", **params, hint=hint)
        return None

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
        tasks, firsts = tasks_of(in_line(records), claim, now)
        look_again, blind_seconds = look.claimed(
            firsts,
            picked=len(tasks) + len(aside.limited) + len(aside.fair),
            now=now,
            limited_due_at=records[0]["aside_due_at"],
        )
        return Claimed(tasks, look_again=look_again, blind_seconds=blind_seconds), aside

    def claim_next(self, claim: ClaimRequest, *, now: float, record_id: int) -> Script[list[Task]]:
        return (
            yield call(
                "claim_next",
                types="\n".join(claim.types),
                projects=None if claim.projects is None else "\n".join(claim.projects),
                **self._lanes.look(claim).texts(),
                **_taking(claim, now, record_id),
            )
        )

    def complete_plain(
        self, done: Sequence[Transition], *, now: float, record_id: int
    ) -> Script[set[str]]:
        results = [move.after.result_json or "null" for move in done]
        values = _completing(done, now, record_id)
        if _are_alike(results):
            written = yield call("complete_alike", **values, result=results[0])
        else:
            written = yield call("complete_plain", **values, results=f"[{','.join(results)}]")
        return {row[0] for row in written}

    def rehearse(self, claim: ClaimRequest, *, now: float) -> Sequence[StatementCall]:
        nothing = replace(claim, queues=())
        return (
            next(self.claim(nothing, now=now, record_id=0)),
            next(self.claim_next(nothing, now=now, record_id=0)),
            next(self.complete_plain([], now=now, record_id=0)),
            call("complete_alike", **_completing((), now, 0), result="null"),
            call("first_due", queues=[]),
            call("next_due", queues=[], now=now),
        )


class Part(NamedTuple):
    """A part of a group of tasks that are alike."""

    ids: list[str]
    payloads: list[str]
    before: int
    """Tasks of the group before this part."""


def _with_record(
    task: Task, last: Part, ids: Sequence[str], *, now: float, record_id: int
) -> dict[str, Any]:
    """The last part of a group, and the record of the group, whose ids are these."""
    return {
        **_alike(task, last, now, record_id),
        "events_count": len(ids),
        "events_json": enqueued_alike(task, ids, now),
        "deltas_json": alike_deltas(task, len(ids)),
    }


def _alike(task: Task, part: Part, now: float, record_id: int) -> dict[str, Any]:
    """A part of a group. `task`: the values that all of the group share."""
    return {
        **dict(zip(SHAPE, shape_values(task), strict=True)),
        "ids": "\n".join(part.ids),
        "payloads": f"[{','.join(part.payloads)}]",
        "before": part.before,
        "due_at": now + (task.due_at - task.created_at),
        "now": now,
        "record_id": str(record_id),
    }


def _shapes(tasks: Sequence[Task]) -> tuple[list[Shape], list[int]]:
    """The shapes of the tasks, and the place of that of each, from 1 on."""
    shapes: dict[Shape, int] = {}
    places = [
        shapes.setdefault((*shape_values(task), task.due_at - task.created_at), len(shapes) + 1)
        for task in tasks
    ]
    return list(shapes), places


def _are_alike(results: Sequence[str]) -> bool:
    """Whether all tasks have one result. Most handlers return none."""
    return bool(results) and results.count(results[0]) == len(results)


def _completing(done: Sequence[Transition], now: float, record_id: int) -> dict[str, Any]:
    """What both statements for completions need, without the results."""
    before = [move.before for move in done]
    return {
        "ids": "\n".join([task.id for task in before]),
        "fences": ",".join([str(task.fence) for task in before]),
        "versions": ",".join([str(task.version) for task in before]),
        "events_json": encode([move.events[0] for move in done]).decode(),
        "deltas_json": deltas_json(shifted(before, Status.RUNNING, Status.COMPLETED)),
        "count": len(done),
        "now": now,
        "record_id": str(record_id),
    }


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
