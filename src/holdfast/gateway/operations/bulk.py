"""Changes of many tasks at once, as runs that can be read, stopped and resumed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from holdfast.core.bulk import PREFIX, TASKS_MAX, BulkAction, BulkRun, BulkSpec
from holdfast.core.check import check_name, check_page, check_text
from holdfast.core.command import Instruction
from holdfast.core.decide import decide
from holdfast.core.rights import Operation
from holdfast.core.search import parse
from holdfast.core.search.tree import And, Term
from holdfast.core.task import Task
from holdfast.core.transition import Transition
from holdfast.core.wire import make_cursor, parse_cursor
from holdfast.errors import Conflict, InvalidInput
from holdfast.gateway.bulk_audit import RIGHT_OF
from holdfast.gateway.operations.call import Answer, Call, missing
from holdfast.gateway.operations.dead import dead_only
from holdfast.queue.views import at
from holdfast.store.search import search
from holdfast.sync.bulk.bulk import samples

O: Final = Operation  # noqa: E741
LIST: Final = "operations"
STEP: Final = 500
"""Tasks that a dry run reads at a time."""
FINGERPRINT: Final = "fingerprint"
CAUSE_CHARS_MAX: Final = 200
"""Characters of the error that an operation keeps as the cause of its tasks."""
OF_THE_DEAD: Final = frozenset({BulkAction.REPLAY, BulkAction.DISCARD})
NOT_DEAD: Final = "not-dead"
"""Why a task that was named is left out of a change of dead letters."""


class OperationBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A change of many tasks: those of `ids`, or those that match `q`."""

    action: BulkAction
    q: str | None = None
    ids: list[str] | None = None
    args: dict[str, Any] = {}
    rate_per_second: float | None = None
    canary: int | None = None
    stop_on_fail_share: float | None = None
    reason: str = ""
    dry_run: bool = False
    expect_count: int | None = None


class StopBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    reason: str = ""


async def run(call: Call, body: OperationBody) -> Answer:
    """Begins to change many tasks, in transactions of up to 100. Each change is judged and audited like a
    single one."""
    call.authorise_any(O.OPERATIONS_RUN)
    actor = call.authorise_any(RIGHT_OF[body.action]).actor
    check_text("reason", body.reason)
    projects = call.projects
    spec = BulkSpec(
        action=body.action,
        actor=actor,
        reason=body.reason,
        q=body.q,
        args=_args(call, body),
        rate_per_second=body.rate_per_second,
        canary=body.canary,
        stop_on_fail_share=body.stop_on_fail_share,
        projects=None if projects is None else tuple(sorted(projects)),
        request_id=call.request_id,
    )
    if not body.dry_run:
        await call.check_answered(O.OPERATIONS_RUN)
    ids, absent = await _chosen(call, body)
    if body.expect_count is not None and body.expect_count != len(ids):
        raise Conflict(f"{len(ids)} tasks match, not {body.expect_count}: look at the list again")
    await _check_node(call, spec, ids)
    spec = msgspec.structs.replace(spec, cause=await _cause(call, body, ids))
    if body.dry_run:
        return Answer(await _foreseen(call, spec, ids, absent))
    run_id = call.services.bulk.runs.new_id()
    by = call.by(
        O.OPERATIONS_RUN,
        project=call.home,
        subject=run_id,
        actor=actor,
        reason=body.reason,
        answer=lambda made: Answer(shown(call, made), 202) if isinstance(made, BulkRun) else None,
        detail={"action": body.action.value, "q": body.q, "tasks": len(ids)},
    )
    made = await call.services.bulk.runs.create(
        spec, ids, by.beside, run_id, absent=absent, token_id=call.token_id
    )
    await call.services.bulk.begin(made)
    return Answer(shown(call, made), 202)


async def _cause(call: Call, body: OperationBody, ids: Sequence[str]) -> str:
    """The error that the tasks of a query by fingerprint share. A replay takes it from them."""
    if not ids or body.q is None:
        return ""
    clause = parse(body.q).clause
    clauses = clause.clauses if isinstance(clause, And) else (clause,)
    if not any(isinstance(each, Term) and each.key == FINGERPRINT for each in clauses):
        return ""
    task = (await call.services.store.reads.get(ids[:1])).get(ids[0])
    return (task.error or "")[:CAUSE_CHARS_MAX] if task is not None else ""


def _args(call: Call, body: OperationBody) -> dict[str, Any]:
    """The arguments of the change. A reassignment that names no fallback gets that of the settings."""
    if body.action is not BulkAction.REASSIGN:
        return body.args
    return {"fallback_seconds": call.services.rules.reassign_fallback_seconds} | body.args


async def find(call: Call, *, after: str | None = None, limit: int = 100) -> Answer:
    """The runs of the principal's projects, the latest first."""
    call.authorise_any(O.TASKS_READ)
    check_page(limit)
    before = None if after is None else str(parse_cursor(after, of=LIST)[0])
    items: list[BulkRun] = []
    while len(items) < limit:
        page = await call.services.bulk.runs.page(before=before, limit=limit)
        items += [run for run in page if _is_visible(call, run)]
        if len(page) < limit:
            break
        before = page[-1].id
    more = make_cursor((items[limit - 1].id,), of=LIST) if len(items) >= limit else None
    return Answer({"items": [shown(call, run) for run in items[:limit]], "next": more})


async def get(call: Call, operation_id: str) -> Answer:
    """One run, and how far it is."""
    run = await _visible(call, O.TASKS_READ, operation_id)
    return Answer(shown(call, run), version=run.version)


async def stop(call: Call, operation_id: str, body: StopBody) -> Answer:
    """No further task is changed. What was changed stays."""
    run = await _visible(call, O.OPERATIONS_RUN, operation_id)
    after = await call.services.bulk.runs.stop(run.id, _by(call, run, body))
    call.services.bulk.wake(run.id)
    return Answer(shown(call, after), version=after.version)


async def resume(call: Call, operation_id: str, body: StopBody) -> Answer:
    """A stopped run goes on with the tasks that are left."""
    run = await _visible(call, O.OPERATIONS_RUN, operation_id)
    call.authorise_any(RIGHT_OF[run.spec.action])
    by = _by(call, run, body)
    after = await call.services.bulk.runs.resume(run.id, by, token_id=call.token_id)
    await call.services.bulk.begin(after)
    return Answer(shown(call, after), version=after.version)


def _by(call: Call, run: BulkRun, body: StopBody) -> Any:
    actor = call.authorise_any(O.OPERATIONS_RUN).actor
    return call.by(
        O.OPERATIONS_RUN,
        project=call.home,
        subject=run.id,
        actor=actor,
        reason=check_text("reason", body.reason),
        answer=lambda after: (
            Answer(shown(call, after), 200, after.version) if isinstance(after, BulkRun) else None
        ),
    )


def shown(call: Call, run: BulkRun) -> dict[str, Any]:
    """A run as the API shows it."""
    spec, redaction = run.spec, call.services.redaction
    return {
        "id": run.id,
        "action": spec.action.value,
        "q": spec.q,
        "cause": redaction.text(spec.cause),
        "args": spec.args,
        "state": run.state.value,
        "total": run.total,
        "done": run.done,
        "failed": run.failed,
        "failed_again": run.progress.again,
        "errors": [{"reason": code, "count": count} for code, count in run.errors.items()],
        "detail": redaction.text(run.detail),
        "rate_per_second": spec.rate_per_second,
        "canary": spec.canary,
        "stop_on_fail_share": spec.stop_on_fail_share,
        "actor": spec.actor,
        "reason": redaction.text(spec.reason),
        "created_at": at(run.created_at),
        "updated_at": at(run.updated_at),
        "version": run.version,
    }


async def _visible(call: Call, operation: Operation, operation_id: str) -> BulkRun:
    call.authorise_any(operation)
    if not operation_id.startswith(PREFIX):
        raise missing("operation", operation_id)
    run = await call.services.bulk.runs.get(operation_id)
    if not _is_visible(call, run):
        raise missing("operation", operation_id)
    return run


def _is_visible(call: Call, run: BulkRun) -> bool:
    """A run belongs to the projects of who made it."""
    projects = run.spec.projects
    return call.projects is None or (projects is not None and call.projects.issuperset(projects))


async def _chosen(call: Call, body: OperationBody) -> tuple[list[str], Counter[str]]:
    """The ids of the tasks, all of the principal's projects, and why others that were named are left out. A
    foreign id counts as one that does not exist."""
    if (body.ids is None) == (body.q is None):
        raise InvalidInput("give either ids or q")
    if body.ids is not None:
        if len(body.ids) > TASKS_MAX:
            raise InvalidInput(f"{len(body.ids)} ids: at most {TASKS_MAX} are allowed")
        names = list(dict.fromkeys(check_name("ids", name) for name in body.ids))
        named = await call.services.store.reads.named(names, call.projects)
        tasks = {task.id: task for task in (named[name] for name in names if name in named)}
        is_of_the_dead = body.action in OF_THE_DEAD
        ids = [task.id for task in tasks.values() if task.is_dead or not is_of_the_dead]
        alive = len(tasks) - len(ids)
        return ids, +Counter({"not-found": len(names) - len(named), NOT_DEAD: alive})
    query = parse(body.q or "")
    if body.action in OF_THE_DEAD:
        query = dead_only(query)
    page = await search(call.services.store, query, projects=call.projects, limit=TASKS_MAX + 1)
    if len(page.rows) > TASKS_MAX:
        raise InvalidInput(
            f"more than {TASKS_MAX} tasks match: narrow q, e.g. by type or by created"
        )
    return [row.id for row in page.rows], Counter()


async def _check_node(call: Call, spec: BulkSpec, ids: list[str]) -> None:
    """InvalidInput if tasks of some project and type cannot be assigned to the node."""
    node = spec.to_node
    if node is None:
        return
    chosen: list[Task] = []
    for start in range(0, len(ids), STEP):
        tasks = await call.services.store.reads.get(ids[start : start + STEP])
        chosen = samples([*chosen, *tasks.values()])
    for task in chosen:
        await call.services.store.interventions.check_node(node, task)


async def _foreseen(
    call: Call, spec: BulkSpec, ids: list[str], absent: Counter[str]
) -> dict[str, Any]:
    """How many tasks would be changed now, and why the others would not. `count`: those that the run would
    try. Others that were named are among the skipped; the run counts them as refused."""
    store, command = call.services.store, spec.command()
    skipped: Counter[str] = Counter()
    for start in range(0, len(ids), STEP):
        tasks = await store.reads.get(ids[start : start + STEP])
        for task in tasks.values():
            ruling = decide(task, Instruction(task.id, command), store.now())
            if not isinstance(ruling, Transition):
                skipped[ruling.code] += 1
    return {
        "count": len(ids),
        "eligible": len(ids) - skipped.total(),
        "skipped": [{"reason": code, "count": n} for code, n in sorted((skipped + absent).items())],
    }
