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

from holdfast.core import codec
from holdfast.core.check import check_name, check_number, check_text, check_whole
from holdfast.core.claim_by_id import ClaimById, implied_claim
from holdfast.core.command import Instruction, Release, Report
from holdfast.core.exchange import lamport
from holdfast.core.hub_rules import RULES, HubRules
from holdfast.core.ids import Ids
from holdfast.core.speaking import NodeAct, Voice
from holdfast.core.task import Task
from holdfast.core.totals import check_totals, reported
from holdfast.core.transition import Refusal, Transition
from holdfast.core.wire import WHOLE_MAX
from holdfast.errors import NotFound
from holdfast.store.port import Dialect
from holdfast.store.script import Script, call, call_rows
from holdfast.store.scripts import apply
from holdfast.store.scripts.claim_by_id import HeldAlready, claim_loaded
from holdfast.store.store import Store
from holdfast.sync.errors import AlreadyLocked, NotClaimable
from holdfast.sync.log import LogRow, write_log
from holdfast.sync.nodes.node_task import ClaimRef, NodeTask, Reported, locked, locked_for
from holdfast.sync.rows import own, read_project
from holdfast.sync.speaking import heard
from holdfast.sync.sync_task import SyncTask, progress_of, view


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


class TaskHeartbeat(ClaimRef, frozen=True, kw_only=True):
    """What the holder of a task reports while it runs."""

    lease_seconds: float | None = None
    progress: float | None = None
    phase: str | None = None
    iteration: int | None = None
    metrics: Mapping[str, float] = {}
    """Totals of this attempt."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_totals(self.metrics)
        if self.iteration is not None:
            check_whole("iteration", self.iteration, least=0, most=WHOLE_MAX)
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

    async def beat(self, voice: Voice, task_id: str, beat: TaskHeartbeat) -> Beat:
        """Extends the lock, reports progress. A lost lock is answered with the reason."""
        request = Reported(voice, task_id, beat, self._rules)
        return await self._store.run(partial(_beat, request=request, beat=beat))

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
        claim = ClaimRef(fence=fence, claim_id=claim_id)
        request = Reported(voice, task_id, claim, self._rules)
        released = await self._store.run(partial(_release, request=request, reason=reason))
        if released.is_released:
            self._on_changed()
        return released


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
    seen = yield from locked(node, task_id, dialect, ids, now)
    task = seen.task
    if claim_id is None:
        claim_id = implied_claim(task, node.id, node.incarnation)
    request = ClaimById(task_id, node.id, claim_id, lease_seconds)
    answer = yield from claim_loaded(seen.work, request)
    clock = (yield from read_project(task.project)).clock
    if isinstance(answer, HeldAlready):
        return Locked(view(answer.task, seen.row), clock)
    if isinstance(answer, Transition):
        after = seen.after
        seen.row = seen.row.claimed(node.id, node.incarnation, after.fence, after.claim_id)
        clock = yield from _finish(seen, seen.log("claim", "accepted"))
        return Locked(seen.view, clock)
    assert isinstance(answer, Refusal), "an ended lease has expired"
    code = "ALREADY_LOCKED" if answer.code == "already-locked" else "NOT_CLAIMABLE"
    yield from _finish(seen, seen.log("claim", "refused", code))
    return replace(answer, current=seen.after)


def _beat(
    dialect: Dialect, ids: Ids, now: float, *, request: Reported, beat: TaskHeartbeat
) -> Script[Beat]:
    seen = yield from locked_for(request, dialect, ids, now)
    task, node, work = seen.task, seen.node, seen.work
    if not seen.is_held(beat):
        why, clock = yield from seen.refuse_lost("heartbeat")
        return Beat(seen.view, clock, why)
    clock = (yield from read_project(task.project)).clock
    seconds = request.rules.lease_seconds(beat.lease_seconds, task.lease_seconds)
    text = beat.progress_json(task)
    if text is not None:
        apply.carry_out(
            work, Instruction(task.id, Report(progress_json=text, merge=True), task.fence)
        )
    if beat.metrics:
        work.mention([reported(seen.after, node.id, task.fence, beat.metrics, now)])
        rows = [(task.id, node.id, task.fence, *pair) for pair in sorted(beat.metrics.items())]
        yield call_rows("put_metrics", rows)
    if text is not None or beat.metrics:
        yield from seen.finish()
    yield call(
        own("extend_lock"), id=task.id, fence=task.fence, until=now + seconds, seconds=seconds
    )
    after = replace(seen.after, lease_until=now + seconds, lease_seconds=seconds)
    return Beat(view(after, seen.row), clock)


def _release(
    dialect: Dialect, ids: Ids, now: float, *, request: Reported, reason: str
) -> Script[Released]:
    seen = yield from locked_for(request, dialect, ids, now)
    task = seen.task
    if not seen.is_held(request.claim):
        clock = (yield from read_project(task.project)).clock
        yield from seen.finish()
        return Released(seen.view, clock, is_released=False)
    command = Release(reason or f"node {seen.node.id} released it")
    apply.carry_out(seen.work, Instruction(task.id, command, task.fence))
    clock = yield from _finish(seen, seen.log("release", "accepted"))
    return Released(seen.view, clock, is_released=True)


def _finish(seen: NodeTask, entry: LogRow) -> Script[int]:
    """Writes the task, its sync row and the log. A change raises the clock of the project. Returns it."""
    project, node = seen.task.project, seen.node
    clock = 0

    def beside(now: float) -> Script[tuple[()]]:
        nonlocal clock
        yield call(own("add_project"), id=project, now=now)
        clock = (yield from read_project(project, lock=True)).clock
        if entry.outcome == "accepted":
            clock = lamport.advance(clock, node.clock).clock
            yield call(own("set_clock"), id=project, clock=clock)
            seen.row = replace(
                seen.row,
                clock=clock,
                writer=node.id,
                writer_kind=node.kind,
                written_version=seen.after.version,
            )
            yield call_rows(own("add_sync_row"), [seen.row.values()])
            yield call_rows(own("write_sync_rows"), [seen.row.values()])
        yield from write_log([entry], project=project, node=node.id, clock=clock, now=now)
        return ()

    yield from seen.finish(beside)
    return clock
