"""Operations on dead letters, and changes of many tasks at once."""

from __future__ import annotations

from typing import Final, Literal

import msgspec
from msgspec.structs import replace

from holdfast.core.check import check_page, check_text
from holdfast.core.command import Abort, Instruction, OperatorCommand, Pause, Replay, Resume
from holdfast.core.decide import Refusal, Transition
from holdfast.core.rights import Operation
from holdfast.core.search import Query, parse
from holdfast.core.search.tree import And, Exact, Term
from holdfast.core.task import Task
from holdfast.core.wire import make_cursor
from holdfast.errors import Conflict, InvalidInput
from holdfast.gateway import redacting
from holdfast.gateway.operations import tasks
from holdfast.gateway.operations.call import Answer, Call
from holdfast.queue import views
from holdfast.queue.dead_letters import DeadGroup
from holdfast.store.search import TaskRow, search

O: Final = Operation  # noqa: E741
OPERATION_MAX: Final = 1_000
"""Tasks that one operation changes."""
BATCH: Final = 100
"""Tasks that one transaction of an operation changes."""
DEAD: Final = Term("status", (Exact("failed"),))
Action = Literal["replay", "discard", "abort", "pause", "resume"]
RIGHT_OF: Final = {
    "replay": O.DEAD_REPLAY,
    "discard": O.DEAD_DISCARD,
    "abort": O.TASKS_INTERVENE,
    "pause": O.TASKS_INTERVENE,
    "resume": O.TASKS_INTERVENE,
}
"""What an operation needs beside `operations.run`."""


class OperationBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A change of many tasks: those of `ids`, or those that match `q`."""

    action: Action
    q: str | None = None
    ids: list[str] | None = None
    reason: str = ""
    dry_run: bool = False
    expect_count: int | None = None


async def find(call: Call, *, q: str = "", after: str | None = None, limit: int = 100) -> Answer:
    """Dead letters that match, the newest first."""
    call.authorise_any(O.TASKS_READ)
    query = _dead(parse(q))
    name = f"dead-letters {q}"
    place = None if after is None else tasks.cursor(after, name)
    page = await search(
        call.services.store, query, projects=call.projects, after=place, limit=check_page(limit)
    )
    last = page.rows[-1] if len(page.rows) == limit else None
    following = None if last is None else make_cursor((last.updated_at, last.id), of=name)
    return Answer({"items": tasks.rows(call, page.rows), "next": following})


async def groups(call: Call, *, limit: int = 50) -> Answer:
    """Dead letters by cause, the largest group first."""
    call.authorise_any(O.TASKS_READ)
    if call.projects is None:
        rows = await call.services.parts.dead_letters.groups(limit=limit)
    else:
        page = await search(
            call.services.store, _dead(Query()), projects=call.projects, limit=OPERATION_MAX
        )
        rows = _grouped(page.rows)[: check_page(limit)]
        samples = await call.services.store.reads.get([row.sample_id for row in rows])
        rows = [_with_sample(row, samples.get(row.sample_id)) for row in rows]
    rules = call.services.redaction
    return Answer(
        {"items": [redacting.row(rules, views.dead_group(row)) for row in rows], "next": None}
    )


def _dead(query: Query) -> Query:
    clause = DEAD if query.clause is None else And((DEAD, query.clause))
    return Query(clause, query.sort)


def _grouped(rows: list[TaskRow]) -> list[DeadGroup]:
    groups: dict[str, list[TaskRow]] = {}
    for row in rows:
        groups.setdefault(row.fingerprint or "", []).append(row)
    made = [
        DeadGroup(
            fingerprint,
            len(group),
            min(row.finished_at or 0.0 for row in group),
            max(row.finished_at or 0.0 for row in group),
            group[0].id,
            group[0].type,
            group[0].error or "",
        )
        for fingerprint, group in groups.items()
    ]
    return sorted(made, key=lambda group: -group.count)


def _with_sample(group: DeadGroup, sample: Task | None) -> DeadGroup:
    failure = None if sample is None else sample.failure
    return group if failure is None else replace(group, error_type=failure.error_type)


# -- many tasks at once -----------------------------------------------------------------------------


async def run(call: Call, body: OperationBody) -> Answer:
    """Changes many tasks, in transactions of `BATCH`. Each change is judged and audited like a single one.

    A repeat with the same key gets the answer of the first run. The entry of the key is written before the
    first and after the last transaction; a run that died in between is taken over and goes on with what is
    left."""
    call.authorise_any(O.OPERATIONS_RUN)
    actor = call.authorise_any(RIGHT_OF[body.action]).actor
    check_text("reason", body.reason)
    ids = await _chosen(call, body)
    if body.expect_count is not None and body.expect_count != len(ids):
        raise Conflict(f"{len(ids)} tasks match, not {body.expect_count}: look at the list again")
    if body.dry_run:
        return Answer({"count": len(ids), "eligible": len(ids), "skipped": []})
    repeat = await call.begin_repeatable(O.OPERATIONS_RUN)
    done = 0
    skipped: dict[str, int] = {}
    for start in range(0, len(ids), BATCH):
        rulings = await _apply(call, body, ids[start : start + BATCH], actor)
        for ruling in rulings:
            if isinstance(ruling, Transition):
                done += 1
            else:
                skipped[ruling.code] = skipped.get(ruling.code, 0) + 1
    answer = Answer(
        {
            "id": f"op_{call.request_id.removeprefix('req_')}",
            "action": body.action,
            "q": body.q,
            "state": "done",
            "total": len(ids),
            "done": done,
            "failed": len(ids) - done,
            "skipped": [{"reason": code, "count": n} for code, n in sorted(skipped.items())],
            "actor": actor,
            "reason": body.reason,
        }
    )
    await call.end_repeatable(repeat, answer)
    return answer


async def _apply(
    call: Call, body: OperationBody, ids: list[str], actor: str
) -> list[Transition | Refusal]:
    by = call.by(
        RIGHT_OF[body.action], project=call.home, subject="", actor=actor, reason=body.reason
    )
    command = _command(body.action, actor, body.reason)
    instructions = [Instruction(task_id, command) for task_id in ids]
    rulings = await call.services.store.apply(instructions, beside=by.beside)
    call.services.wake()
    return rulings


def _command(action: Action, actor: str, reason: str) -> OperatorCommand:
    match action:
        case "replay":
            return Replay(actor, reason=reason)
        case "pause":
            return Pause(actor, reason)
        case "resume":
            return Resume(actor, reason)
        case "abort" | "discard":
            return Abort(actor, reason)


async def _chosen(call: Call, body: OperationBody) -> list[str]:
    """The ids of the tasks, all of the principal's projects. A foreign id is left out, as if it did not
    exist."""
    if (body.ids is None) == (body.q is None):
        raise InvalidInput("give either ids or q")
    if body.ids is not None:
        if len(body.ids) > OPERATION_MAX:
            raise InvalidInput(f"{len(body.ids)} ids: at most {OPERATION_MAX} are allowed")
        found = await call.services.store.reads.get(body.ids)
        projects = call.projects
        return [
            task.id
            for task in found.values()
            if (projects is None or task.project in projects)
            and (body.action not in ("replay", "discard") or task.is_dead)
        ]
    query = parse(body.q or "")
    if body.action in ("replay", "discard"):
        query = _dead(query)
    page = await search(call.services.store, query, projects=call.projects, limit=OPERATION_MAX + 1)
    if len(page.rows) > OPERATION_MAX:
        raise InvalidInput(
            f"more than {OPERATION_MAX} tasks match: narrow q, e.g. by type or by created"
        )
    return [row.id for row in page.rows]
