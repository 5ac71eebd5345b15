"""Orders of operators to jobs: pause, resume, abort, promote, change, retry.

Promises: an order, the job, its event and the audit are one transaction. The same order again changes
nothing. An abort ends what has not got its go at once; with `kill`, what runs is aborted too, and its
agents are ordered to end it. A change of the rollout counts from the next step on; it never allows more
than what was approved. A retry is a new job: what has ended stays as it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from enum import StrEnum
from functools import partial
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from holdfast.bus.port import Bus
from holdfast.core import codec
from holdfast.core.check import check_choice
from holdfast.core.errors import ApprovalVoid, EmptySelection, UnknownCommandType
from holdfast.core.event import NewEvent
from holdfast.core.fleet.jobs.request import REQUEST_HASH_MARK
from holdfast.core.fleet.jobs.spec import JobSpec, read_spec, with_definition
from holdfast.core.fleet.model import ApprovalState, HostState, Job
from holdfast.core.fleet.rollout import control as rollout_control
from holdfast.core.fleet.rollout.policy import Amount, BudgetName, HaltMode, Policy, loosened
from holdfast.core.fleet.rollout.state import HaltCause, RolloutState
from holdfast.core.fleet.rules import FleetRules
from holdfast.core.fleet.status import Bucket, bucket
from holdfast.core.ids import Ids
from holdfast.errors import IllegalTransition, InvalidInput
from holdfast.fleet.hints import wake_hosts, wake_jobs
from holdfast.fleet.hosts import scripts as host_scripts
from holdfast.fleet.jobs import asking
from holdfast.fleet.jobs.create import Created, Jobs
from holdfast.fleet.jobs.job_rows import (
    executions,
    job_event,
    known_job,
    lock_for,
    rollout_of,
    tasks_of,
    with_rollout,
    write_job,
)
from holdfast.fleet.jobs.rows import own
from holdfast.fleet.jobs.steps import JobStep
from holdfast.fleet.jobs.votes import ENDED_MAX
from holdfast.fleet.jobs.window import in_window
from holdfast.queue.by import By
from holdfast.store.beside import begin, end
from holdfast.store.port import Dialect
from holdfast.store.script import Script, call
from holdfast.store.scripts.work import Work
from holdfast.store.store import Store

PAGE: Final = 1_000
"""Executions that one statement of a retry reads."""


class AbortMode(StrEnum):
    """What an abort does to hosts that run."""

    DRAIN = "drain"
    """They finish."""
    KILL = "kill"


class RetryOf(StrEnum):
    """Which ends of a job are tried again."""

    FAILED = Bucket.FAILED.value
    TIMEOUT = Bucket.TIMEOUT.value
    LOST = Bucket.LOST.value
    UNREACHABLE = Bucket.UNREACHABLE.value
    BLOCKED = Bucket.BLOCKED.value
    CANCELLED = Bucket.CANCELLED.value
    """Among them the hosts that a halt left out."""


BAD_ENDS: Final = (RetryOf.FAILED, RetryOf.TIMEOUT, RetryOf.LOST, RetryOf.UNREACHABLE)
"""What a retry takes unless it says otherwise."""


class RolloutChange(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an operator changes of a rollout. What is missing stays."""

    max_in_flight: Amount | msgspec.UnsetType = msgspec.UNSET
    rate_per_second: float | msgspec.UnsetType | None = msgspec.UNSET
    budget: dict[BudgetName, Amount | None] = {}
    """None: no limit."""

    def applied(self, policy: Policy) -> Policy:
        given = {
            name: value
            for name in ("max_in_flight", "rate_per_second")
            if (value := getattr(self, name)) is not msgspec.UNSET
        }
        wanted = policy.budgets | self.budget
        budgets = {name: amount for name, amount in wanted.items() if amount is not None}
        return replace(policy, budgets=budgets, **given)


class Ordered(msgspec.Struct, frozen=True):
    """The job after an order. The outcome for `By.beside`."""

    job: Job
    is_repeat: bool = False
    """It was so already."""


Order = Callable[[Job, float], tuple[Job, NewEvent]]
"""The job after an order and its event. The same job: it was so already."""


class JobControl:
    """The orders of operators."""

    def __init__(self, store: Store, rules: FleetRules, bus: Bus) -> None:
        self._store = store
        self._rules = rules
        self._bus = bus
        self._jobs = Jobs(store, rules, bus)

    async def pause(self, job_id: str, by: By) -> Ordered:
        """No further host starts until the job is resumed. Hosts that run go on."""
        return await self._order(job_id, by, partial(_paused, by=by), is_halt=True)

    async def resume(self, job_id: str, by: By) -> Ordered:
        """The job goes on with its counters."""
        return await self._order(job_id, by, partial(_resumed, by=by))

    async def promote(self, job_id: str, by: By) -> Ordered:
        """Opens the wave that waits for a person."""
        return await self._order(job_id, by, partial(_promoted, by=by))

    async def set(
        self, job_id: str, change: RolloutChange, by: By, *, excluded_voters: Sequence[str] = ()
    ) -> Ordered:
        """Changes the rollout of a job. ApprovalVoid if it would allow more than what was approved. Who edits
        a job may not vote on it, nor may `excluded_voters`, e.g. those who hold the editor's token."""
        excluded = (by.actor, *excluded_voters)
        return await self._order(
            job_id, by, partial(_changed, change=change, by=by, excluded=excluded)
        )

    async def _order(self, job_id: str, by: By, order: Order, *, is_halt: bool = False) -> Ordered:
        script = partial(_carry_out, job_id=job_id, order=order, by=by, is_halt=is_halt)
        ordered = await self._store.run(script)
        wake_jobs(self._bus)
        return ordered

    async def abort(self, job_id: str, by: By, *, mode: str = AbortMode.DRAIN.value) -> Ordered:
        """Ends the job: what has not got its go ends now; what runs finishes, or is aborted."""
        chosen = check_choice("mode", mode, AbortMode)
        halting = HaltMode.DRAIN if chosen is AbortMode.DRAIN else HaltMode.ABORT
        ordered, hosts = await self._store.run(
            partial(_abort, job_id=job_id, mode=halting, by=by, rules=self._rules)
        )
        wake_jobs(self._bus)
        wake_hosts(self._bus, hosts)
        return ordered

    async def retry(
        self,
        job_id: str,
        by: By,
        *,
        only: Sequence[str] = BAD_ENDS,
        external_id: str | None = None,
        excluded_voters: Sequence[str] = (),
    ) -> Created:
        """A new job for the hosts that ended so in a job that has ended. It is approved as any other."""
        wanted = {check_choice("only", name, RetryOf) for name in only}
        if not wanted:
            raise InvalidInput("only is empty: name what to retry, e.g. failed")
        job = await self._store.read(lambda: known_job(job_id, by.expected_version))
        if job.finished_at is None:
            raise IllegalTransition(f"job {job_id} is {job.status}: only an ended job is retried")
        asked = REQUEST_HASH_MARK + codec.digest(codec.dumps([job.id, sorted(wanted), by.reason]))
        if external_id is not None:
            made = await self._jobs.made_before(job.project, external_id, asked)
            if made is not None:
                return made
        hosts, ends = await self._store.read(lambda: _hosts_that(job, wanted))
        if not hosts:
            raise EmptySelection(_none_ended(job_id, wanted, ends))
        spec = replace(
            _again(job, hosts, by.reason, self._rules), external_id=external_id, request_hash=asked
        )
        return await self._jobs.create_from(
            spec, replace(by, expected_version=None), excluded_voters=excluded_voters
        )


# -- orders ------------------------------------------------------------------------------------------


def _carry_out(
    dialect: Dialect,
    ids: Ids,
    now: float,
    *,
    job_id: str,
    order: Order,
    by: By,
    is_halt: bool,
) -> Script[Ordered]:
    yield from begin(by.beside, now)
    job = yield from lock_for(job_id, by.expected_version)
    _check_open(job)
    if is_halt:
        yield from tasks_of((yield from in_window(job_id)), lock=True)
    after, event = order(job, now)
    if after is job:
        ordered = Ordered(job, is_repeat=True)
        yield from end(by.beside, ordered, now)
        return ordered
    work = Work(now)
    work.mention([event])
    if after.excluded_voters_json != job.excluded_voters_json:
        yield from asking.exclude(after, now)
    ordered = Ordered((yield from write_job(job, after)))
    yield from end(by.beside, ordered, now)
    yield from work.save(dialect, ids.record(now))
    return ordered


def _check_open(job: Job) -> None:
    if job.finished_at is not None:
        raise IllegalTransition(f"job {job.id} has ended ({job.status}) and will not change")


def _paused(job: Job, now: float, *, by: By) -> tuple[Job, NewEvent]:
    rollout = rollout_of(job)
    state = rollout_control.pause(rollout.state, reason=by.reason, actor=by.actor)
    event = job_event("job.halted", job, now, mode=HaltMode.PAUSE.value, **_signed(by))
    if state is rollout.state:
        return job, event
    return with_rollout(job, replace(rollout, state=state)), event


def _resumed(job: Job, now: float, *, by: By) -> tuple[Job, NewEvent]:
    rollout = rollout_of(job)
    state = rollout_control.resume(rollout.policy, rollout.state, rollout.unknown)
    event = job_event("job.resumed", job, now, **_signed(by))
    if state is rollout.state:
        return job, event
    return replace(with_rollout(job, replace(rollout, state=state)), due_at=now), event


def _promoted(job: Job, now: float, *, by: By) -> tuple[Job, NewEvent]:
    rollout = rollout_of(job)
    event = job_event("job.promoted", job, now, wave=rollout.state.wave + 1, **_signed(by))
    if rollout.state.promoted:
        return job, event
    state = rollout_control.promote(rollout.state)
    return replace(with_rollout(job, replace(rollout, state=state)), due_at=now), event


def _changed(
    job: Job, now: float, *, change: RolloutChange, by: By, excluded: Sequence[str]
) -> tuple[Job, NewEvent]:
    rollout = rollout_of(job)
    policy = change.applied(rollout.policy)
    needed_none = job.approval_state is ApprovalState.NOT_REQUIRED and job.break_glass_json is None
    if not needed_none:
        wider = loosened(read_spec(job.spec_json).rollout, policy, job.hosts)
        if wider:
            raise ApprovalVoid(
                f"job {job.id} was asked for with less in {', '.join(wider)}: lower it, or make another job"
            )
    event = job_event("job.changed", job, now, changed=msgspec.to_builtins(change), **_signed(by))
    if policy == rollout.policy:
        return job, event
    due_at = now if job.started_at is not None else job.due_at
    edited = asking.excluding(asking.edited(job, by.actor), excluded)
    edited = with_rollout(edited, replace(rollout, policy=policy))
    return replace(edited, due_at=due_at), event


def _signed(by: By) -> dict[str, Any]:
    return {"actor": by.actor, "reason": by.reason}


def _abort(
    dialect: Dialect,
    ids: Ids,
    now: float,
    *,
    job_id: str,
    mode: HaltMode,
    by: By,
    rules: FleetRules,
) -> Script[tuple[Ordered, list[str]]]:
    yield from begin(by.beside, now)
    job = yield from lock_for(job_id, by.expected_version)
    rollout = rollout_of(job)
    if job.finished_at is not None and _was_aborted(rollout.state):
        ordered = Ordered(job, is_repeat=True)
        yield from end(by.beside, ordered, now)
        return ordered, []
    _check_open(job)
    reason = by.reason or f"aborted by {by.actor}"
    state = rollout_control.halt(rollout.state, mode, reason=reason, actor=by.actor)
    if state is rollout.state:
        ordered = Ordered(job, is_repeat=True)
        yield from end(by.beside, ordered, now)
        return ordered, []
    changed = job
    if job.approval_state is ApprovalState.WAIT_APPROVAL and job.approval_id is not None:
        request = yield from asking.read_request(job.approval_id)
        yield from asking.write_request(request, asking.voided(request, now))
        changed = replace(job, approval_state=ApprovalState.VOID)
    step = JobStep(
        with_rollout(changed, replace(rollout, state=state)), ids, rules, now, before=job
    )
    done: list[Ordered] = []

    def also(written: Job) -> Script[Sequence[NewEvent]]:
        done.append(Ordered(written))
        yield from end(by.beside, done[0], now)
        return [job_event("job.halted", written, now, mode=mode.value, **_signed(by))]

    planned = yield from step.run(dialect, most=ENDED_MAX, also=also)
    return done[0], planned.wake


def _was_aborted(state: RolloutState) -> bool:
    return state.halt is not None and state.halt.cause is HaltCause.OPERATOR and state.halt.is_final


# -- retry -------------------------------------------------------------------------------------------


def _none_ended(job_id: str, wanted: set[RetryOf], ends: Counter[str]) -> str:
    """Why a retry has no hosts, and which ends it may name."""
    names = ", ".join(each for each in RetryOf if each in wanted)
    others = {name: ends[name] for name in RetryOf if ends[name] and name not in wanted}
    text = f"job {job_id} has no host that ended so ({names}) and still exists"
    if not others:
        return text
    counts = ", ".join(f"{count} {name}" for name, count in others.items())
    return f"{text}; others ended as {counts}: name those in only, e.g. {next(iter(others))}"


def _hosts_that(job: Job, wanted: set[RetryOf]) -> Script[tuple[list[str], Counter[str]]]:
    """The hosts that ended so and were not removed since, and how many hosts ended how."""
    hosts: list[str] = []
    ends: Counter[str] = Counter()
    after = -1
    while True:
        rows = yield call(
            own("executions_page"), job_id=job.id, after=after, wave=None, host=None, limit=PAGE
        )
        found = executions(rows)
        tasks = yield from tasks_of(found)
        for execution in found:
            ended = bucket(tasks[execution.task_id], execution)
            if ended is not None:
                ends[ended.value] += 1
                if ended.value in wanted:
                    hosts.append(execution.host_id)
        if len(found) < PAGE:
            known = yield from host_scripts.pinned(hosts, with_facts=False)
            return [h for h in hosts if h in known and known[h].state is not HostState.GONE], ends
        after = found[-1].nth


def _again(job: Job, hosts: Sequence[str], reason: str, rules: FleetRules) -> JobSpec:
    spec = read_spec(job.spec_json)
    definition = rules.command_types.get(spec.command_type)
    if definition is None:
        raise UnknownCommandType(
            f"command type '{spec.command_type}' of job {job.id} is not defined any more"
        )
    return replace(
        with_definition(spec, definition),
        hosts=tuple(hosts),
        selector=None,
        parent_job_id=job.id,
        reason=reason,
        dry_run=False,
    )
