"""Claims of tasks by the names that nodes use: claim, heartbeat, release.

Promises: a repeated claim of the holder gets the same lock. Whether a lease has ended is judged by the claim
itself. A heartbeat extends the lease and reports; a lost lock is answered with the reason. A release is
idempotent. Each judges its sender in its transaction. Never: extends a lease under another fence.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import msgspec
from msgspec.structs import replace

from holdfast.core import codec, gate
from holdfast.core.check import check_name, check_number, check_text, check_whole
from holdfast.core.claim_by_id import ClaimById, implied_claim
from holdfast.core.command import Expire, Instruction, Release, Report
from holdfast.core.exchange import lamport
from holdfast.core.hub_rules import RULES, HubRules
from holdfast.core.ids import Ids
from holdfast.core.speaking import NodeAct, Voice
from holdfast.core.task import LEASED, Status, Task
from holdfast.core.totals import check_totals, reported
from holdfast.core.transition import Refusal, Transition
from holdfast.core.wire import WHOLE_MAX
from holdfast.errors import InvalidInput, NotFound
from holdfast.store.port import Dialect
from holdfast.store.script import Script, call, call_rows
from holdfast.store.scripts import apply
from holdfast.store.scripts.claim_by_id import HeldAlready, claim_loaded
from holdfast.store.scripts.work import Work
from holdfast.store.store import Store
from holdfast.sync.errors import AlreadyLocked, NotClaimable
from holdfast.sync.push_state import LogRow
from holdfast.sync.rows import RegisteredNode, own, read_project
from holdfast.sync.speaking import heard
from holdfast.sync.sync_task import SyncRow, SyncTask, progress_of, row_of, view
from holdfast.sync.tally import write_tally


class Locked(msgspec.Struct, frozen=True):
    """The answer to a claim."""

    task: SyncTask
    clock: int


class Beat(msgspec.Struct, frozen=True):
    """The answer to a heartbeat. `lost`: why the lock is gone."""

    task: SyncTask
    clock: int
    lost: str | None = None


class Released(msgspec.Struct, frozen=True):
    task: SyncTask
    clock: int
    is_released: bool


class Sign(msgspec.Struct, frozen=True, kw_only=True):
    """What a heartbeat reports."""

    fence: int | None = None
    claim_id: str | None = None
    lease_seconds: float | None = None
    progress: float | None = None
    phase: str | None = None
    iteration: int | None = None
    metrics: Mapping[str, float] = {}
    """Totals of this attempt."""

    def __post_init__(self) -> None:
        check_totals(self.metrics)
        if self.claim_id is not None:
            check_name("claimId", self.claim_id)
        for field, value in (("fence", self.fence), ("iteration", self.iteration)):
            if value is not None:
                check_whole(field, value, least=0, most=WHOLE_MAX)
        if self.progress is not None:
            check_number("progress", self.progress, most=1.0)
        if self.phase is not None:
            check_text("phase", self.phase, most=200)

    def progress_json(self, task: Task) -> str | None:
        """The report; None when it reports nothing."""
        given = {"done": self.progress, "phase": self.phase, "iteration": self.iteration}
        fields: dict[str, object] = {n: value for n, value in given.items() if value is not None}
        if not fields:
            return None
        before = progress_of(task)
        if before.fence != task.fence:
            fields = {"done": 0.0, "phase": "", "iteration": 0} | fields
        return codec.dumps({"fence": task.fence, **fields})


class TaskClaims:
    """The use cases of locks of tasks. `on_changed` is called after a commit that released one."""

    def __init__(
        self,
        store: Store,
        on_changed: Callable[[], None] = lambda: None,
        rules: HubRules = RULES,
    ) -> None:
        self._store = store
        self._on_changed = on_changed
        self._rules = rules

    async def claim(
        self,
        voice: Voice,
        task_id: str,
        *,
        lease_seconds: float | None = None,
        claim_id: str | None = None,
    ) -> Locked:
        """Claims a task. AlreadyLocked, NotClaimable or NotFound if the node does not get it."""
        if claim_id is not None:
            check_name("claimId", claim_id)
        seconds = self._rules.lease_seconds(lease_seconds)
        answer = await self._store.run(
            partial(_claim, voice=voice, task_id=task_id, claim_id=claim_id, lease_seconds=seconds)
        )
        if isinstance(answer, Refusal):
            raise self._error(answer)
        return answer

    def _error(self, refusal: Refusal) -> Exception:
        task = refusal.current
        if refusal.code == "already-locked" and task is not None and task.lease_until is not None:
            seconds = max(0.0, task.lease_until - self._store.now())
            details = {
                "locked_by": task.node,
                "locked_until": task.lease_until,
                "locked_for_seconds": seconds,
            }
            return AlreadyLocked(refusal.message, details)
        if refusal.code == "not-claimable":
            return NotClaimable(refusal.message, refusal.reason or "")
        return NotFound(refusal.message)

    async def beat(self, voice: Voice, task_id: str, sign: Sign) -> Beat:
        """Extends the lock, reports progress. A lost lock is answered with the reason."""
        return await self._store.run(
            partial(_beat, voice=voice, task_id=task_id, sign=sign, rules=self._rules)
        )

    async def release(
        self,
        voice: Voice,
        task_id: str,
        *,
        fence: int | None = None,
        claim_id: str | None = None,
        reason: str = "",
    ) -> Released:
        """Gives the task back. Nothing happens if the node does not hold it."""
        check_text("reason", reason)
        sign = Sign(fence=fence, claim_id=claim_id)
        released = await self._store.run(
            partial(
                _release,
                voice=voice,
                task_id=task_id,
                sign=sign,
                reason=reason,
                rules=self._rules,
            )
        )
        if released.is_released:
            self._on_changed()
        return released


def check_fence(node: RegisteredNode, fence: int | None, rules: HubRules) -> None:
    if fence is None and rules.must_fence(node.capabilities):
        why = (
            "this hub requires it (sync.require_fence)"
            if rules.require_fence
            else "the node registered the capability 'fence' and sends it always"
        )
        raise InvalidInput(f"fence is missing: {why}")


def loaded(task_id: str, now: float) -> Script[tuple[Work, Task, SyncRow]]:
    """Locks the task. A lease that has ended expires."""
    work = Work(now)
    work.load((yield call("lock_tasks", ids=[task_id])))
    task = work.tasks.get(task_id)
    if task is None:
        raise NotFound(f"task {task_id} does not exist")
    if task.status in LEASED and task.lease_until is not None and task.lease_until <= now:
        ruling = apply.carry_out(work, Instruction(task.id, Expire(), task.fence))
        work.expired.append(ruling)
    rows = yield call(own("sync_rows"), ids=[task_id])
    row = row_of(task, {found[2]: SyncRow(*found) for found in rows})
    return work, work.tasks[task_id], row


def _claim(
    dialect: Dialect,
    ids: Ids,
    now: float,
    *,
    voice: Voice,
    task_id: str,
    claim_id: str | None,
    lease_seconds: float,
) -> Script[Locked | Refusal]:
    node = yield from heard(voice, NodeAct.CLAIM)
    work, task, row = yield from loaded(task_id, now)
    if claim_id is None:
        claim_id = implied_claim(task, node.id, node.incarnation)
    request = ClaimById(task_id, node.id, claim_id, lease_seconds)
    answer = yield from claim_loaded(work, request)
    clock = (yield from read_project(task.project)).clock
    if isinstance(answer, HeldAlready):
        return Locked(view(answer.task, row), clock)
    after, log = work.tasks[task.id], _log("claim", task, row, "refused", code="NOT_CLAIMABLE")
    if isinstance(answer, Transition):
        row = row.claimed(node.id, node.incarnation, after.fence, after.claim_id)
        log = _log("claim", task, row, "accepted", after=after)
    elif isinstance(answer, Refusal) and answer.code == "already-locked":
        log = _log("claim", task, row, "refused", code="ALREADY_LOCKED")

    def beside(now: float) -> Script[tuple[()]]:
        nonlocal row, clock
        row, clock = yield from _write(node, after, row, log, now)
        return ()

    yield from apply.finish(work, ids.record(now), dialect, then=beside)
    if isinstance(answer, Transition):
        return Locked(view(after, row), clock)
    assert isinstance(answer, Refusal), "an ended lease has expired"
    return replace(answer, current=after)


def _beat(
    dialect: Dialect,
    ids: Ids,
    now: float,
    *,
    voice: Voice,
    task_id: str,
    sign: Sign,
    rules: HubRules,
) -> Script[Beat]:
    node = yield from heard(voice)
    check_fence(node, sign.fence, rules)
    work, task, row = yield from loaded(task_id, now)
    clock = (yield from read_project(task.project)).clock
    if not holds(task, node, sign):
        record = dialect, ids.record(now)
        yield from refuse_lost("heartbeat", work, row, node, clock=clock, record=record)
        return Beat(view(task, row), clock, why_lost(task, row, node))
    seconds = rules.lease_seconds(sign.lease_seconds, task.lease_seconds)
    text = sign.progress_json(task)
    if text is not None:
        apply.carry_out(
            work, Instruction(task.id, Report(progress_json=text, merge=True), task.fence)
        )
    if sign.metrics:
        work.mention([reported(work.tasks[task.id], node.id, task.fence, sign.metrics, now)])
        rows = [(task.id, node.id, task.fence, *pair) for pair in sorted(sign.metrics.items())]
        yield call_rows("put_metrics", rows)
    if text is not None or sign.metrics:
        yield from apply.finish(work, ids.record(now), dialect)
    yield call(
        own("extend_lock"), id=task.id, fence=task.fence, until=now + seconds, seconds=seconds
    )
    after = replace(work.tasks[task.id], lease_until=now + seconds, lease_seconds=seconds)
    return Beat(view(after, row), clock)


def _release(
    dialect: Dialect,
    ids: Ids,
    now: float,
    *,
    voice: Voice,
    task_id: str,
    sign: Sign,
    reason: str,
    rules: HubRules,
) -> Script[Released]:
    node = yield from heard(voice)
    check_fence(node, sign.fence, rules)
    work, task, row = yield from loaded(task_id, now)
    clock = (yield from read_project(task.project)).clock
    if not holds(task, node, sign):
        yield from apply.finish(work, ids.record(now), dialect)
        return Released(view(work.tasks[task.id], row), clock, is_released=False)
    command = Release(reason or f"node {node.id} released it")
    apply.carry_out(work, Instruction(task.id, command, task.fence))
    after = work.tasks[task.id]
    log = _log("release", task, row, "accepted", after=after)

    def beside(now: float) -> Script[tuple[()]]:
        nonlocal row, clock
        row, clock = yield from _write(node, after, row, log, now)
        return ()

    yield from apply.finish(work, ids.record(now), dialect, then=beside)
    return Released(view(after, row), clock, is_released=True)


def holds(task: Task, node: RegisteredNode, sign: Sign) -> bool:
    """Whether the node holds the task, under the fence and the claim that it names."""
    return (
        task.status in LEASED
        and task.node == node.id
        and sign.fence in (None, task.fence)
        and sign.claim_id in (None, task.claim_id)
    )


def refuse_lost(
    op: str,
    work: Work,
    row: SyncRow,
    node: RegisteredNode,
    *,
    clock: int,
    record: tuple[Dialect, int],
) -> Script[None]:
    """Writes the log of a report by a node that does not hold the task, and what the claim's end changed."""
    dialect, record_id = record
    task = work.tasks[row.task_id]
    log = _log(op, task, row, "refused", code="LOCK_LOST")

    def beside(now: float) -> Script[tuple[()]]:
        rows = [log.values(clock)]
        yield call_rows(own("add_log"), rows, project=task.project, node=node.id, now=now)
        yield from write_tally(task.project, {"fenced": 1})
        return ()

    yield from apply.finish(work, record_id, dialect, then=beside)


def why_lost(task: Task, row: SyncRow, node: RegisteredNode) -> str:
    """Why the node does not hold the task any more."""
    if task.status is Status.ABORTED:
        return "aborted"
    if task.status is Status.PAUSED or gate.is_held(task):
        return "paused"
    if task.status in (Status.COMPLETED, Status.FAILED):
        return "forced"
    if task.assigned_to is not None and task.assigned_to != node.id:
        return "reassigned"
    if task.status in LEASED and task.node != node.id:
        return "reclaimed"
    was_ours = row.claim_node == node.id
    return "expired" if was_ours or task.deaths else "released"


def _write(
    node: RegisteredNode, task: Task, row: SyncRow, log: LogRow, now: float
) -> Script[tuple[SyncRow, int]]:
    """Writes the sync row and the log. A change raises the clock."""
    project = task.project
    yield call(own("add_project"), id=project, now=now)
    clock = (yield from read_project(project, lock=True)).clock
    if log.outcome == "accepted":
        clock = lamport.advance(clock, node.clock).clock
        yield call(own("set_clock"), id=project, clock=clock)
        row = replace(
            row, clock=clock, writer=node.id, writer_kind=node.kind, written_version=task.version
        )
        yield call_rows(own("add_sync_row"), [row.values()])
        yield call_rows(own("write_sync_rows"), [row.values()])
    yield call_rows(own("add_log"), [log.values(clock)], project=project, node=node.id, now=now)
    return row, clock


def _log(
    op: str,
    task: Task,
    row: SyncRow,
    outcome: str,
    *,
    code: str | None = None,
    after: Task | None = None,
) -> LogRow:
    to_version = after.version if after is not None else None
    return LogRow(op, row.client_id, None, outcome, code, None, task.version, to_version)
