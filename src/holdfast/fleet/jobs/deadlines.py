"""What ends by itself: approvals that were not given in time, and blocks that hold executions.

Promises: an execution that a block held goes on, ends or is asked about again when the block has ended, as
the block says (`on_lift`). What an operator holds, or has let go, is left to the operator. A block with
`on_running = abort` ends what runs on its hosts. Each job is one transaction; a job that fails is left alone
for a while and stops no other.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

import msgspec
from msgspec.structs import replace

from holdfast.bus.port import Bus
from holdfast.core.command import Abort, Instruction, Pause, Resume
from holdfast.core.event import NewEvent
from holdfast.core.fleet.blocks import block as rules_of_blocks
from holdfast.core.fleet.blocks.block import LiftAction, Refused
from holdfast.core.fleet.hosts.selector_parse import may_ask_facts
from holdfast.core.fleet.jobs.spec import read_spec
from holdfast.core.fleet.jobs.unstarted import HELD_TOO_LONG
from holdfast.core.fleet.model import (
    APPROVAL_PREFIX,
    Block,
    Execution,
    Host,
    Job,
    OnLift,
    OutboxKind,
)
from holdfast.core.fleet.rules import FleetRules
from holdfast.core.fleet.status import ExecutionKind, ends_as
from holdfast.core.gate import BLOCK_ACTOR, is_of_block
from holdfast.core.ids import Ids
from holdfast.core.task import ENDED
from holdfast.core.transition import Transition
from holdfast.fleet.attempts import Attempts
from holdfast.fleet.hints import wake_hosts, wake_jobs
from holdfast.fleet.hosts import scripts as host_scripts
from holdfast.fleet.hosts.groups import named_by
from holdfast.fleet.jobs import ending
from holdfast.fleet.jobs.approvals import Approvals
from holdfast.fleet.jobs.drift import ask_again, current_digest
from holdfast.fleet.jobs.ending import Killed, Reason
from holdfast.fleet.jobs.job_rows import (
    GRANTED,
    executions,
    lock_job,
    rollout_of,
    tasks_of,
    with_rollout,
    write_job,
)
from holdfast.fleet.jobs.outbox import announce
from holdfast.fleet.jobs.rows import own
from holdfast.fleet.jobs.verdicts import BlocksInForce, read_blocks
from holdfast.fleet.jobs.window import in_window
from holdfast.fleet.rows import BLOCKS
from holdfast.metrics import Meter
from holdfast.store.port import Dialect
from holdfast.store.script import Script, call
from holdfast.store.scripts import apply
from holdfast.store.scripts.work import Work
from holdfast.store.store import Store

BATCH: Final = 500
"""Executions that one transaction releases or ends."""
LOOK: Final = 2_000
"""Running executions that one transaction compares with blocks that end what runs."""
BLOCKS_MAX: Final = 1_000
"""Blocks that one look judges."""


class Released(msgspec.Struct, frozen=True):
    """What became of executions that were held."""

    hosts: list[str] = []
    """Hosts that have something to do."""
    count: int = 0


class Deadlines:
    """The looks at what ends by itself."""

    def __init__(
        self, store: Store, rules: FleetRules, bus: Bus, *, meter: Meter | None = None
    ) -> None:
        self._store = store
        self._rules = rules
        self._bus = bus
        self._approvals = Approvals(store, rules, bus, meter=meter)
        self._releases = Attempts("the release of job", store.now)
        self._stops = Attempts("the stop of job", store.now)

    @property
    def troubles(self) -> int:
        """Unexpected errors of single jobs."""
        parts = (self._approvals.expiries, self._releases, self._stops)
        return sum(part.troubles for part in parts)

    async def expire_approvals(self) -> int:
        return await self._approvals.expire_due()

    async def release_held(self) -> int:
        """Lets go what is held by blocks that do not count any more. Returns how many executions."""
        now = self._store.now()
        found = await self._store.read(lambda: _held_by_ended(now))
        total = 0
        for holder, job_id in found:
            script = partial(_release, job_id=job_id, holder=holder, rules=self._rules)
            released = await self._releases.run(job_id, partial(self._store.run, script))
            if released is not None and released.count:
                total += released.count
                wake_hosts(self._bus, released.hosts)
                wake_jobs(self._bus)
        return total

    async def stop_blocked(self) -> int:
        """Ends what runs on hosts of blocks that say so. Returns how many executions."""
        now = self._store.now()
        found = await self._store.read(lambda: _jobs_to_stop(now))
        total = 0
        for job_id in found:
            total += await self._stops.run(job_id, partial(self._stop, job_id)) or 0
        return total

    async def _stop(self, job_id: str) -> int:
        """All pages of a job, each in its transaction."""
        total, after = 0, -1
        while True:
            stopped = await self._store.run(
                partial(_stop, job_id=job_id, after=after, rules=self._rules)
            )
            total += len(stopped.hosts)
            wake_hosts(self._bus, stopped.hosts)
            if stopped.after is None:
                return total
            after = stopped.after


# -- held executions ---------------------------------------------------------------------------------


def _held_by_ended(now: float) -> Script[list[tuple[str, str]]]:
    """(holder, job) of executions whose holder, a block or an approval, does not hold them any more."""
    pairs = yield call(own("held_executions"))
    if not pairs:
        return []
    ids = sorted({holder for holder, _ in pairs})
    blocks = {
        block.id: block for block in BLOCKS.read_all((yield call(own("blocks_by_id"), ids=ids)))
    }
    return [
        (holder, job_id)
        for holder, job_id in pairs
        if holder not in blocks or not rules_of_blocks.is_in_force(blocks[holder], now)
    ]


def _release(
    dialect: Dialect, ids: Ids, now: float, *, job_id: str, holder: str, rules: FleetRules
) -> Script[Released]:
    job = yield from lock_job(job_id)
    if job is None or job.finished_at is not None:
        return Released()
    if holder.startswith(APPROVAL_PREFIX) and job.approval_state not in GRANTED:
        return Released()
    blocks = BLOCKS.read_all((yield call(own("blocks_by_id"), ids=[holder])))
    if blocks and rules_of_blocks.is_in_force(blocks[0], now):
        return Released()
    rows = yield call(own("held_of_job"), job_id=job_id, block_id=holder, limit=BATCH)
    found = executions(rows)
    if not found:
        return Released()
    changed, events = job, list[NewEvent]()
    if blocks and blocks[0].on_lift is OnLift.REAPPROVE and now < job.not_after:
        changed, events = yield from _asked(job, holder, rules, ids, now)
        if changed.approval_state not in GRANTED:
            work = Work(now)
            work.mention(events)
            # A go that another transaction gives commits before this, or finds that the job waits.
            yield from tasks_of((yield from in_window(job_id)), lock=True)
            moved = yield from _wait_for_people(changed, holder=holder)
            yield from write_job(job, changed)
            yield from work.save(dialect, ids.record(now))
            return Released(count=moved)
    lift = _Lift(job, rules, now)
    yield from ending.lock_executions(lift.work, found)
    in_force = yield from read_blocks(job.project, read_spec(job.spec_json).command_type, now)
    hosts = yield from _hosts_of(found, in_force)
    in_force.over(hosts.values())
    for execution in found:
        lift.one(execution, hosts.get(execution.host_id), in_force, blocks)

    if lift.has_away:
        # The rollout lets them return to its window.
        looked = replace(rollout_of(changed), looked_at=0.0)
        changed = replace(with_rollout(changed, looked), due_at=now)

    def then(now: float) -> Script[Sequence[NewEvent]]:
        yield from ending.write_reasons(lift.reasons)
        yield from announce(OutboxKind.RUN_EXECUTION, lift.pushed, now)
        yield from write_job(job, changed)
        return events

    yield from apply.finish(lift.work, ids.record(now), dialect, then=then)
    return Released(lift.wake, len(found))


def _hosts_of(found: Sequence[Execution], blocks: BlocksInForce) -> Script[dict[str, Host]]:
    ids = [execution.host_id for execution in found]
    return (yield from host_scripts.pinned(ids, with_facts=blocks.ask_facts))


def _asked(
    job: Job, block_id: str, rules: FleetRules, ids: Ids, now: float
) -> Script[tuple[Job, list[NewEvent]]]:
    """The job with another request, unless it waits for one already."""
    if job.approval_state not in GRANTED:
        return job, []
    current = yield from current_digest(job, rules, now)
    why = f"block {block_id} has ended, and its executions need another approval"
    return (yield from ask_again(job, current, rules, ids, now, why=why))


def _wait_for_people(job: Job, *, holder: str) -> Script[int]:
    """All that the block held waits for the request, in the transaction that asks: so people are asked once,
    however many there are. Other blocks are judged when it is granted. Returns how many."""
    moved = yield call(
        own("hold_for_approval"),
        job_id=job.id,
        block_id=holder,
        approval_id=job.approval_id,
        detail="its block has ended; the job waits for another approval",
    )
    return len(moved)


class _Lift:
    """What becomes of the held executions of one job."""

    def __init__(self, job: Job, rules: FleetRules, now: float) -> None:
        self.job = job
        self.rules = rules
        self.work = Work(now)
        self.reasons: dict[str, Reason] = {}
        self.wake: list[str] = []
        self.pushed: list[str] = []
        self.has_away = False

    def one(
        self,
        execution: Execution,
        host: Host | None,
        in_force: BlocksInForce,
        ended: Sequence[Block],
    ) -> None:
        task = self.work.tasks[execution.task_id]
        if task.status in ENDED:
            return
        if not is_of_block(task.held_by):
            # An operator holds it, or has let it go, and it may run: the block has no say any more.
            self.reasons[task.id] = Reason(None, "")
            return
        others = None if host is None else in_force.verdict(host)
        action = LiftAction.REQUEUE
        if ended:
            action = rules_of_blocks.after_lift(
                ended[0], others=others, not_after=self.job.not_after, now=self.work.now
            )
        elif others is not None:
            action = LiftAction.REFUSE if isinstance(others, Refused) else LiftAction.HOLD
        task_id = execution.task_id
        match action:
            case LiftAction.DROP:
                self._end(
                    task_id, ExecutionKind.SKIPPED, "its block has ended, and says to drop it"
                )
            case LiftAction.EXPIRE:
                self._end(task_id, *HELD_TOO_LONG)
            case LiftAction.REFUSE if others is not None:
                _, reason = in_force.judged(others)
                self._end(task_id, ExecutionKind.BLOCKED, reason.detail)
            case LiftAction.HOLD if others is not None:
                actor, reason = in_force.judged(others)
                self._resume(task_id, actor)
                self._hold(task_id, actor, reason)
            case _:
                self._requeue(execution, host)

    def _resume(self, task_id: str, actor: str) -> None:
        apply.carry_out(self.work, Instruction(task_id, Resume(actor, "its block has ended")))

    def _hold(self, task_id: str, actor: str, reason: Reason) -> None:
        apply.carry_out(self.work, Instruction(task_id, Pause(actor, reason.detail)))
        self.reasons[task_id] = reason

    def _requeue(self, execution: Execution, host: Host | None) -> None:
        """It goes on, unless it has left the window: then it waits for its turn."""
        task_id = execution.task_id
        self._resume(task_id, BLOCK_ACTOR.rstrip(":"))
        self.reasons[task_id] = Reason(None, "")
        self.has_away = self.has_away or execution.away
        if execution.away:
            return
        if host is not None and self.rules.is_pushed(host.driver):
            self.pushed.append(task_id)
        elif host is not None:
            self.wake.append(host.id)

    def _end(self, task_id: str, kind: ExecutionKind, detail: str) -> None:
        kind, detail = ends_as(self.work.tasks[task_id], kind, detail)
        command = Abort(BLOCK_ACTOR.rstrip(":"), detail)
        if isinstance(apply.carry_out(self.work, Instruction(task_id, command)), Transition):
            self.reasons[task_id] = Reason(kind, detail)


# -- blocks that end what runs -----------------------------------------------------------------------


def _jobs_to_stop(now: float) -> Script[list[str]]:
    """Jobs that run something on hosts of blocks in force that end it. Their command types are not looked at.
    Takes no locks: there is rarely anything to end."""
    rows = yield call(own("stopping_blocks"), limit=BLOCKS_MAX)
    found = [b for b in BLOCKS.read_all(rows) if rules_of_blocks.is_in_force(b, now)]
    jobs: dict[str, None] = {}
    for project in sorted({block.project for block in found}):
        running = yield call(own("running_targets"), project=project)
        if not running:
            continue
        blocks = [block for block in found if block.project == project]
        ids = sorted({row[1] for row in running})
        with_facts = any(may_ask_facts(block.selector) for block in blocks)
        hosts = yield from host_scripts.pinned(ids, with_facts=with_facts)
        groups = yield from named_by(project, (block.selector for block in blocks))
        about = rules_of_blocks.by_host(blocks, list(hosts.values()), groups)
        jobs |= {job_id: None for job_id, host_id in running if about.get(host_id)}
    return list(jobs)


class Stopped(msgspec.Struct, frozen=True):
    """One page of executions that were looked at."""

    hosts: list[str] = []
    """Hosts of those that were ended."""
    after: int | None = None
    """Where the next page begins. None: there is none."""


def _stop(
    dialect: Dialect, ids: Ids, now: float, *, job_id: str, after: int, rules: FleetRules
) -> Script[Stopped]:
    """Ends executions of a job that run on hosts of such blocks: those of one page."""
    job = yield from lock_job(job_id)
    if job is None or job.finished_at is not None:
        return Stopped()
    rows = yield call(own("running_executions"), job_id=job_id, after=after, limit=LOOK)
    found = executions(rows)
    next_after = found[-1].nth if len(found) == LOOK else None
    in_force = yield from read_blocks(job.project, read_spec(job.spec_json).command_type, now)
    hosts = yield from _hosts_of(found, in_force)
    in_force.over(hosts.values())
    stopped: dict[str, Block] = {}
    for execution in found:
        host = hosts.get(execution.host_id)
        block = None if host is None else in_force.stopping(host)
        if block is not None:
            stopped[execution.task_id] = block
    matching = [execution for execution in found if execution.task_id in stopped]
    if not matching:
        return Stopped(after=next_after)
    work = Work(now)
    yield from ending.lock_executions(work, matching)
    reasons: dict[str, Reason] = {}
    kills: list[ending.KilledRow] = []
    for execution in matching:
        block = stopped[execution.task_id]
        actor, detail = BLOCK_ACTOR + block.id, rules_of_blocks.block_text(block, now)
        killed = ending.kill_running(work, [execution], ids, actor=actor, reason=detail)
        reasons |= killed.reasons
        kills += killed.rows

    def then(now: float) -> Script[Sequence[NewEvent]]:
        yield from ending.write_reasons(reasons)
        return (yield from ending.write_kills(Killed(reasons, kills), now))

    yield from apply.finish(work, ids.record(now), dialect, then=then)
    return Stopped([task.node for task, _, _ in kills if task.node is not None], next_after)
