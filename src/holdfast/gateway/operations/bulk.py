"""Changes of many tasks at once, as runs that can be read, stopped and resumed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import msgspec

from holdfast.core import codec
from holdfast.core.bulk import PREFIX, TASKS_MAX, BulkAction, BulkRun, BulkSpec, undone
from holdfast.core.check import check_name, check_page, check_text
from holdfast.core.command import Instruction
from holdfast.core.decide import decide
from holdfast.core.plural import noun_for
from holdfast.core.rights import Operation
from holdfast.core.search import parse
from holdfast.core.search.tree import And, Term
from holdfast.core.task import FailureKind, Task
from holdfast.core.transition import Transition
from holdfast.core.upkeep_rules import failed_with_parent, parent_failed_with
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
EXAMPLE_CHARS_MAX: Final = 16_384
"""Characters of a payload that a dry run shows before and after a patch."""
PATCH_CHARS_MAX: Final = 4_096
"""Characters of the patch of an operation that a list shows."""
CAUSE_CHARS_MAX: Final = 200
"""Characters of the error that an operation keeps as the cause of its tasks."""
NOT_DEAD: Final = "not-dead"
"""Why a task that was named is left out of a change of dead letters."""
WITH_PARENT: Final = "returns-with-parent"
"""Why a dead letter that matches is left out of a replay."""


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


class UndoBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    reason: str = ""
    dry_run: bool = False


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
    chosen = await _chosen(call, body)
    absent = chosen.absent
    ids, returning = await _without_returning(call, body.action, chosen)
    if body.expect_count is not None and body.expect_count != len(ids):
        tasks = noun_for(len(ids), "task")
        raise Conflict(
            f"the list has {len(ids)} {tasks}, not {body.expect_count}: look at it again"
        )
    await _check_node(call, spec, ids)
    spec = msgspec.structs.replace(spec, cause=await _cause(call, body, ids))
    if body.dry_run:
        return Answer(await _foreseen(call, spec, ids, absent + returning))
    detail = {"action": body.action.value, "q": body.q, "tasks": len(ids)}
    return await _begun(call, spec, ids, absent, detail)


async def _begun(
    call: Call, spec: BulkSpec, ids: list[str], absent: Counter[str], detail: dict[str, Any]
) -> Answer:
    """Makes the run and begins with it. `detail`: what the audit says of it."""
    run_id = call.services.bulk.runs.new_id()
    by = call.by(
        O.OPERATIONS_RUN,
        project=call.home,
        subject=run_id,
        actor=spec.actor,
        reason=spec.reason,
        answer=lambda made: Answer(shown(call, made), 202) if isinstance(made, BulkRun) else None,
        detail=detail,
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
    return Answer({"items": [_row(call, run) for run in items[:limit]], "next": more})


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


async def undo(call: Call, operation_id: str, body: UndoBody) -> Answer:
    """Takes a pause back, as another run: tasks that still have its hold are resumed."""
    run = await _visible(call, O.OPERATIONS_RUN, operation_id)
    actor = call.authorise_any(RIGHT_OF[BulkAction.RESUME]).actor
    spec = undone(run, actor, check_text("reason", body.reason), call.request_id)
    if not body.dry_run:
        await call.check_answered(O.OPERATIONS_RUN)
    ids = await _still_held(call, spec, await call.services.bulk.runs.ids(run.id))
    if body.dry_run:
        return Answer(await _foreseen(call, spec, ids, Counter()))
    detail = {"action": spec.action.value, "undoes": run.id, "tasks": len(ids)}
    return await _begun(call, spec, ids, Counter(), detail)


async def _still_held(call: Call, spec: BulkSpec, ids: list[str]) -> list[str]:
    """The tasks that an undo changes."""
    found: list[str] = []
    for start in range(0, len(ids), STEP):
        part = ids[start : start + STEP]
        tasks = await call.services.store.reads.get(part)
        found += [id for id in part if id in tasks and spec.covers(tasks[id])]
    return found


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
        "args": redaction.value(spec.args) if spec.undo is None else {"undoes": spec.undo.run_id},
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


def _row(call: Call, run: BulkRun) -> dict[str, Any]:
    """A run in a list, which has the size of a long patch in its place: a page has up to 1,000."""
    view = shown(call, run)
    size = len(codec.dumps(view["args"].get("patch")))
    return view | {"args": {"patch_chars": size}} if size > PATCH_CHARS_MAX else view


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


class _Chosen(NamedTuple):
    """The tasks of a change, all of the principal's projects."""

    ids: list[str]
    absent: Counter[str]
    """Why others that were named are left out."""
    fallen: list[str]
    """Those that failed with a parent."""


async def _chosen(call: Call, body: OperationBody) -> _Chosen:
    """The tasks that are named or match. A foreign id counts as one that does not exist."""
    if (body.ids is None) == (body.q is None):
        raise InvalidInput("give either ids or q")
    if body.ids is not None:
        if len(body.ids) > TASKS_MAX:
            raise InvalidInput(f"{len(body.ids)} ids: at most {TASKS_MAX} are allowed")
        names = list(dict.fromkeys(check_name("ids", name) for name in body.ids))
        named = await call.services.store.reads.named(names, call.projects)
        tasks = {task.id: task for task in (named[name] for name in names if name in named)}
        of_the_dead = body.action.is_of_the_dead
        ids = [task.id for task in tasks.values() if task.is_dead or not of_the_dead]
        alive = len(tasks) - len(ids)
        absent = +Counter({"not-found": len(names) - len(named), NOT_DEAD: alive})
        return _Chosen(ids, absent, [id for id in ids if failed_with_parent(tasks[id])])
    query = parse(body.q or "")
    if body.action.is_of_the_dead:
        query = dead_only(query)
    page = await search(call.services.store, query, projects=call.projects, limit=TASKS_MAX + 1)
    if len(page.rows) > TASKS_MAX:
        raise InvalidInput(
            f"more than {TASKS_MAX} tasks match: narrow q, e.g. by type or by created"
        )
    fallen = [row.id for row in page.rows if row.failure_kind == FailureKind.DEPENDENCY]
    return _Chosen([row.id for row in page.rows], Counter(), fallen)


async def _without_returning(
    call: Call, action: BulkAction, chosen: _Chosen
) -> tuple[list[str], Counter[str]]:
    """A replay leaves out dead letters that failed with another one of it: they come back with that one, and
    wait for it. A replay of their own would start them before it has ended. Returns also how many."""
    if action is not BulkAction.REPLAY:
        return chosen.ids, Counter()
    all_ids = set(chosen.ids)
    returning: set[str] = set()
    for start in range(0, len(chosen.fallen), STEP):
        tasks = await call.services.store.reads.get(chosen.fallen[start : start + STEP])
        returning |= {id for id, task in tasks.items() if parent_failed_with(task) in all_ids}
    rest = [id for id in chosen.ids if id not in returning]
    return rest, +Counter({WITH_PARENT: len(returning)})


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
    example: dict[str, Any] | None = None
    for start in range(0, len(ids), STEP):
        tasks = await store.reads.get(ids[start : start + STEP])
        for task in tasks.values():
            ruling = decide(task, Instruction(task.id, command), store.now())
            if not isinstance(ruling, Transition):
                skipped[ruling.code] += 1
            elif example is None and spec.has_patch:
                example = _example(ruling)
    found = {
        "count": len(ids),
        "eligible": len(ids) - skipped.total(),
        "skipped": [{"reason": code, "count": n} for code, n in sorted((skipped + absent).items())],
    }
    return found | {"example": example} if spec.has_patch else found


def _example(ruling: Transition) -> dict[str, Any] | None:
    """The payload of a task before and after a patch. None if they are long."""
    before, after = ruling.before.payload_json, ruling.after.payload_json
    if max(len(before), len(after)) > EXAMPLE_CHARS_MAX:
        return None
    return {"id": ruling.after.id, "before": codec.loads(before), "after": codec.loads(after)}
