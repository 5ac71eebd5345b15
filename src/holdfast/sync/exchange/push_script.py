"""The transaction of a push: lock, judge each item, carry out, write what goes beside it.

Promises: one transaction for the judgement of the sender and all items with their answers, conflicts, log and
figures. Only the server makes versions. The logical clock rises once for each push that changed something.
Ids are arguments, so a second run writes the same. Never: lets one item fail another, unless the push is
atomic.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from holdfast.core.event import NewEvent
from holdfast.core.exchange import lamport
from holdfast.core.exchange.conflict import judge
from holdfast.core.exchange.handshake import Tombstone
from holdfast.core.exchange.item import Item, push_item
from holdfast.core.exchange.item_wire import InvalidItem
from holdfast.core.exchange.push import fence_of
from holdfast.core.exchange.sync_errors import MEANINGS, SyncError
from holdfast.core.exchange.verdict import Action, Resolution, Verdict
from holdfast.core.hub_rules import RULES, HubRules
from holdfast.core.ids import Ids
from holdfast.core.speaking import Voice
from holdfast.core.task import Status
from holdfast.errors import InvalidInput
from holdfast.store.columns import new_values
from holdfast.store.port import Dialect, Raced
from holdfast.store.script import Script, call, call_rows
from holdfast.store.scripts import apply, tags
from holdfast.store.scripts.holders import fences_of
from holdfast.store.scripts.work import Work
from holdfast.sync.exchange import push_effects as effects
from holdfast.sync.exchange.push_conflicts import record_conflict
from holdfast.sync.exchange.push_effects import Judged, Sender, Stopped
from holdfast.sync.exchange.push_state import (
    ItemResult,
    PushState,
    Snapshot,
)
from holdfast.sync.log import write_log
from holdfast.sync.names import resolve
from holdfast.sync.rows import ProjectRow, own, read_project, read_sync_rows
from holdfast.sync.speaking import heard
from holdfast.sync.sync_task import SyncRow, current_of
from holdfast.sync.tally import write_tally

_RESULT = msgspec.json.Decoder(ItemResult)


class Push(msgspec.Struct, frozen=True):
    """A push, with the ids that it may need."""

    voice: Voice
    project: str
    items: Sequence[Item | InvalidItem]
    task_ids: Sequence[str]
    conflict_ids: Sequence[str]
    local_clock: int = 0
    is_atomic: bool = False
    rules: HubRules = RULES


class Pushed(msgspec.Struct, frozen=True):
    results: list[ItemResult]
    clock: int
    is_clamped: bool
    has_changed: bool


class Undone(Exception):
    """An item of an atomic push was refused. Nothing is written."""

    def __init__(self, results: list[ItemResult], clock: int) -> None:
        super().__init__("an item of an atomic push was refused")
        self.results = results
        self.clock = clock


def push(dialect: Dialect, ids: Ids, now: float, *, request: Push) -> Script[Pushed]:
    node = yield from heard(request.voice)
    sender = effects.sender_of(node, request.rules)
    state, project = yield from _read(request, now)
    results: list[ItemResult] = []
    for n, item in enumerate(request.items):
        result = yield from _answer(state, request, sender, item, n)
        results.append(result)
    if request.is_atomic and not all(result.success for result in results):
        raise Undone([_atomic(state, result) for result in results], project.clock)
    tick = lamport.advance(project.clock, node.clock, request.local_clock)

    record_id = ids.record(now)

    def beside(now: float) -> Script[Sequence[NewEvent]]:
        nonlocal tick
        tick = yield from _write(state, request, sender, dialect, record_id)
        return ()

    yield from apply.finish(state.work, record_id, dialect, then=beside)
    results = [_with_state(state, result) for result in results]
    return Pushed(results, tick.clock, tick.is_clamped, bool(state.written))


def _read(request: Push, now: float) -> Script[tuple[PushState, ProjectRow]]:
    """Locks the tasks of the items and reads what the rules need. Leases that have ended expire. The project
    is locked later, in `_write`: it comes after the tasks."""
    names = sorted({item.id for item in request.items if item.id})
    ids = yield from resolve(request.project, names)
    if new := [name for name in names if name not in ids]:
        # Another transaction may create a task under one of these names until they are locked.
        yield call_rows("lock_names", [(request.project, name) for name in new])
        ids |= yield from resolve(request.project, new)
    work = Work(now)
    work.load((yield call("lock_tasks", ids=sorted(set(ids.values())))))
    apply.expire_ended(work, list(work.tasks))
    rows = yield from read_sync_rows(sorted(work.tasks))
    gone = [name for name in names if ids.get(name) not in work.tasks]
    stones = yield call(own("tombstones"), project=request.project, client_ids=gone)
    mutation_ids = sorted({item.mutation_id for item in request.items if item.mutation_id})
    kept = yield call(own("mutations"), node=request.voice.node, ids=mutation_ids)
    project = yield from read_project(request.project)
    state = PushState(
        work,
        names=ids,
        rows=rows,
        tombstones={row[0]: Tombstone(row[1], row[2]) for row in stones},
        answers={row[0]: (row[1], row[2]) for row in kept},
        strategies=project.strategies,
    )
    return state, project


def _answer(
    state: PushState, request: Push, sender: Sender, item: Item | InvalidItem, n: int
) -> Script[ItemResult]:
    before = state.task(item.id)
    if isinstance(item, InvalidItem):
        result = refusal(state, item, SyncError.INVALID_INPUT, Resolution.REJECT, item.message)
    elif item.mutation_id is not None and item.mutation_id in state.answers:
        result = _kept(state, item)
    else:
        result = yield from _judged(state, request, sender, item, n)
        state.keep(item, result)
    state.note(item, result, before.version if before else None)
    return result


def _kept(state: PushState, item: Item) -> ItemResult:
    """The answer that the mutation id got before."""
    fingerprint, text = state.answers[item.mutation_id or ""]
    if fingerprint != item.fingerprint:
        detail = MEANINGS[SyncError.MUTATION_REUSED].when
        return refusal(state, item, SyncError.MUTATION_REUSED, Resolution.REJECT, detail)
    kept = _RESULT.decode(text)
    seen = None if kept.success else state.seen(item.id)
    return replace(kept, duplicate=True, state=seen)


def _judged(
    state: PushState, request: Push, sender: Sender, item: Item, n: int
) -> Script[ItemResult]:
    task = state.task(item.id)
    current = None
    if task is not None:
        current = current_of(
            task, state.row(task), node=sender.node, incarnation=sender.incarnation
        )
        if _names_a_run(item):
            fences = yield from fences_of(task.id, sender.node)
            current = replace(current, fences=_with_claim(fences, state.row(task), sender.node))
    pushed = push_item(item, current, node=sender.node, incarnation=sender.incarnation_of(item))
    stone = state.tombstones.get(item.id)
    verdict = judge(pushed, current, state.strategies, is_deleted=stone is not None)
    if verdict.action is Action.DUPLICATE:
        return _done(state, item, None, duplicate=True)
    judged = None
    if task is not None and current is not None:
        judged = Judged(item, task, current, pushed, verdict)
    if verdict.action is Action.KEEP_EVIDENCE and judged is not None:
        effects.keep_evidence(state, judged, sender)
        state.written.add(judged.task.id)
        return replace(_refused(state, item, verdict, stone, None), late=True)
    snapshot, first = Snapshot(state), len(state.work.events)
    fence = fence_of(pushed, current) if current else None
    try:
        conflict_id = yield from record_conflict(
            state, item, verdict, request.conflict_ids[n], sender
        )
        if verdict.action is Action.REFUSE:
            return _refused(state, item, verdict, stone, conflict_id)
        if judged is None:
            effects.create(state, item, sender, request.project, request.task_ids[n])
        else:
            state.measure(item, judged.task, sender.node, fence)
            yield from effects.carry_out(state, judged, sender)
    except (Stopped, InvalidInput) as stopped:
        snapshot.restore(state)
        error = stopped.error if isinstance(stopped, Stopped) else SyncError.INVALID_INPUT
        return refusal(state, item, error, Resolution.REJECT, str(stopped))
    _sign(state, item, sender, first)
    state.written.add(state.names[item.id])
    return _accepted(state, item, verdict, conflict_id, fence)


def _sign(state: PushState, item: Item, sender: Sender, first: int) -> None:
    """Names the item in the events that it caused, so that its node recognises its own change."""
    signature = {"client_id": item.id, "writer": sender.node}
    if item.mutation_id:
        signature["mutation_id"] = item.mutation_id
    task_id, events = state.names[item.id], state.work.events
    for n in range(first, len(events)):
        if events[n].task_id == task_id:
            events[n] = replace(events[n], data={**events[n].data, **signature})


def _names_a_run(item: Item) -> bool:
    """Whether it says which run it ends: a result of a run that has ended is evidence."""
    is_end = item.status in (Status.COMPLETED, Status.FAILED)
    return is_end and (item.fence is not None or item.claim_id is not None)


def _with_claim(fences: frozenset[int], row: SyncRow, node: str) -> frozenset[int]:
    """With the latest claim, which is kept longer than the history."""
    is_own = row.claim_node == node and row.claim_fence is not None
    return fences | {row.claim_fence} if is_own and row.claim_fence else fences


def _accepted(
    state: PushState, item: Item, verdict: Verdict, conflict_id: str | None, fence: int | None
) -> ItemResult:
    result = _done(state, item, verdict.resolution)
    task = state.task(item.id)
    if verdict.action is Action.RESUME_AND_CLAIM and task is not None:
        fence = task.fence
    content = verdict.content
    return replace(
        result,
        fence=fence,
        conflict_id=conflict_id,
        content_error=content.error.value if content and content.error else None,
    )


def _done(
    state: PushState, item: Item, resolution: Resolution | None, *, duplicate: bool = False
) -> ItemResult:
    task = state.task(item.id)
    return ItemResult(
        item.id,
        success=True,
        new_version=task.version if task else None,
        resolution=resolution.value if resolution else None,
        duplicate=duplicate,
        state=state.seen(item.id),
    )


def _refused(
    state: PushState, item: Item, verdict: Verdict, stone: Tombstone | None, conflict_id: str | None
) -> ItemResult:
    error = verdict.error or SyncError.INVALID_TRANSITION
    detail = MEANINGS[error].when
    if error is SyncError.INVALID_STATUS:
        detail = f"{detail}: {item.status!r}"
    result = refusal(state, item, error, verdict.resolution, detail)
    return replace(
        result,
        conflict_id=conflict_id,
        deleted_at=stone.deleted_at if stone else None,
        new_version=stone.version if stone else None,
    )


def refusal(
    state: PushState,
    item: Item | InvalidItem,
    error: SyncError,
    resolution: Resolution | None,
    detail: str,
) -> ItemResult:
    return ItemResult(
        item.id,
        success=False,
        error=error.value,
        resolution=resolution.value if resolution else None,
        detail=detail,
        state=state.seen(item.id),
    )


def _write(
    state: PushState, request: Push, sender: Sender, dialect: Dialect, record_id: int
) -> Script[lamport.ClockTick]:
    """Writes what goes beside the tasks. The project is locked first: its pushes follow one another."""
    now, project = state.work.now, request.project
    yield call(own("add_project"), id=project, now=now)
    clock = (yield from read_project(project, lock=True)).clock
    tick = lamport.ClockTick(clock, False)
    if state.written:
        tick = lamport.advance(clock, sender.clock, request.local_clock)
        yield call(own("set_clock"), id=project, clock=tick.clock)
        yield call(own("set_node_clock"), id=sender.node, clock=tick.clock)
        yield from _write_tasks(state, sender, tick.clock, dialect, record_id)
    if state.conflicts:
        yield call_rows(
            own("add_conflicts"), [*state.conflicts], project=project, node=sender.node, now=now
        )
    if state.mutations:
        yield call_rows(
            own("add_mutations"), state.mutations, project=project, node=sender.node, now=now
        )
    yield from write_log(state.log, project=project, node=sender.node, clock=tick.clock, now=now)
    if state.metrics:
        yield call_rows("put_metrics", state.metrics)
    yield from write_tally(project, state.tally)
    return tick


def _write_tasks(
    state: PushState, sender: Sender, clock: int, dialect: Dialect, record_id: int
) -> Script[None]:
    """`record_id`: of the record that the events of this push are in. New rows refer to it."""
    created = {task.id for task in state.created}
    for task_id in state.written:
        task = state.work.tasks[task_id]
        state.rows[task_id] = replace(
            state.row(task),
            clock=clock,
            writer=sender.node,
            writer_kind=sender.kind,
            written_version=task.version,
        )
    rows = [state.rows[task_id].values() for task_id in sorted(state.written)]
    added = yield call_rows(own("add_sync_row"), rows)
    if created - {row[0] for row in added}:
        raise Raced  # another push has created a task of the same name
    yield call_rows(own("write_sync_rows"), rows)
    if state.created:
        record_ref = yield from dialect.record_ref(record_id)
        new = [(*new_values(task), nth) for nth, task in enumerate(state.created)]
        yield call_rows("insert_tasks", new, record_id=str(record_ref))
        yield from tags.add(state.created)
        names = [state.rows[task_id].client_id for task_id in sorted(created)]
        project = state.created[0].project
        yield call(own("drop_tombstones"), project=project, client_ids=names)


def _with_state(state: PushState, result: ItemResult) -> ItemResult:
    """The result with the state after the whole push."""
    return replace(result, state=state.seen(result.task_id))


def _atomic(state: PushState, result: ItemResult) -> ItemResult:
    """The answer to an item of an atomic push of which another one was refused."""
    if not result.success:
        return replace(result, conflict_id=None)
    return ItemResult(
        result.task_id,
        success=False,
        error=SyncError.ATOMIC.value,
        resolution=Resolution.REJECT.value,
        detail=MEANINGS[SyncError.ATOMIC].when,
    )
