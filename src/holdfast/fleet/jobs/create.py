"""Creation of jobs: one transaction from the request to the job, its executions and what is due next.

Promises: a request that comes again, with the same external id and the same body, gets the job of the
first; with another body it is refused. 100 equal requests at once make one job. The targets are resolved
once, pinned by the executions, and part of the digest. Nothing is planned here, so an answer does not wait
for it. A dry run writes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

import msgspec
from msgspec.structs import replace

from holdfast.bus.port import Bus
from holdfast.core import codec
from holdfast.core.errors import CommandRefused
from holdfast.core.event import NewEvent
from holdfast.core.fleet.blocks.block import Held
from holdfast.core.fleet.commands import retry_rule
from holdfast.core.fleet.commands.retry_rule import RetryRule
from holdfast.core.fleet.jobs.request import JobRequest, request_hash
from holdfast.core.fleet.jobs.spec import JobSpec, check_request, check_targets, stored
from holdfast.core.fleet.model import (
    JOB_PREFIX,
    ApprovalRequest,
    ApprovalState,
    Host,
    Job,
    OutboxKind,
)
from holdfast.core.fleet.rollout.state import begin as begin_rollout
from holdfast.core.fleet.rules import FleetRules
from holdfast.core.ids import Ids
from holdfast.core.task import DEFAULT_PROJECT
from holdfast.errors import HoldfastError, IdempotencyConflict
from holdfast.fleet.hints import wake_jobs
from holdfast.fleet.jobs import asking
from holdfast.fleet.jobs.insert import NewExecutions, add_executions, add_job
from holdfast.fleet.jobs.job_rows import Rollout, job_event, with_rollout
from holdfast.fleet.jobs.outbox import announce
from holdfast.fleet.jobs.rows import own
from holdfast.fleet.jobs.targets import Targets, resolve
from holdfast.fleet.jobs.verdicts import BlocksInForce, pinned_digest, read_blocks
from holdfast.fleet.rows import JOBS
from holdfast.fleet.secret_values import pin
from holdfast.queue.by import By
from holdfast.store.beside import Beside, begin, end
from holdfast.store.port import Dialect
from holdfast.store.script import Rows, Script, call
from holdfast.store.scripts.work import record
from holdfast.store.store import Store

EXCLUDED_MAX: Final = 1_000
"""Hosts without a start that the row of a job names."""


class Excluded(msgspec.Struct, frozen=True):
    """A host that was selected and will not run the command, as far as it is known at the creation."""

    host: str
    reason: str
    """`cordoned`: it is no target. `block`: it is one, and is refused or held when its turn comes."""
    detail: str = ""
    held: bool = False
    """A block holds it: it waits for the end of the block, and then runs."""


class Created(msgspec.Struct, frozen=True):
    """The answer to a request."""

    job: Job
    created: bool
    """False: an earlier request made the job, or it is a dry run."""
    approval: ApprovalRequest | None = None
    """What people have to decide."""
    hosts: tuple[Host, ...] = ()
    """Of a dry run: the targets, by `nth`."""

    @property
    def excluded(self) -> list[Excluded]:
        return _excluded.decode(self.job.excluded_json)


_excluded: Final = msgspec.json.Decoder(list[Excluded])


class Jobs:
    """The creation of jobs. `reads.JobReads` shows them."""

    def __init__(self, store: Store, rules: FleetRules, bus: Bus) -> None:
        self._store = store
        self._rules = rules
        self._bus = bus

    async def create(
        self, request: JobRequest, by: By, *, excluded_voters: Sequence[str] = ()
    ) -> Created:
        """Makes a job, or finds the one that the request has made before. `excluded_voters`: principals
        beside the actor that must not approve it, e.g. the owner of its token. The outcome for `by.beside`
        is `Created`."""
        try:
            spec = self._checked(request)
        except HoldfastError:
            # The settings may have changed since the request made its job.
            made = await self._made_before(request)
            if made is None:
                raise
            return made
        return await self.create_from(spec, by, excluded_voters=excluded_voters)

    def _checked(self, request: JobRequest) -> JobSpec:
        spec = check_request(request, self._rules.command_types, self._rules)
        self._check_scopes(spec)
        return replace(spec, secrets=pin(spec.secrets, self._rules.secret_versions))

    def _check_scopes(self, spec: JobSpec) -> None:
        refusal = self._rules.secret_refusal(spec.secrets, spec.project, spec.command_type)
        if refusal is not None:
            raise CommandRefused(refusal)

    async def _made_before(self, request: JobRequest) -> Created | None:
        if request.external_id is None or request.dry_run:
            return None
        asked = request_hash(request)
        project = DEFAULT_PROJECT if request.project is None else request.project
        return await self.made_before(project, request.external_id, asked)

    async def made_before(self, project: str, external_id: str, asked: str) -> Created | None:
        """The job that this request has made. None: there is none of it."""
        rows = await self._store.read(lambda: _by_external_id(project, external_id))
        job = JOBS.read(rows[0]) if rows else None
        return None if job is None or job.request_hash != asked else Created(job, created=False)

    async def create_from(
        self, spec: JobSpec, by: By, *, excluded_voters: Sequence[str] = ()
    ) -> Created:
        """Makes a job of a checked request. CommandRefused if it names a secret that is for other jobs."""
        by.of_unversioned("a new job")
        self._check_scopes(spec)
        script = partial(
            create,
            spec=spec,
            rules=self._rules,
            actor=by.actor,
            excluded_voters=tuple(dict.fromkeys((by.actor, *excluded_voters))),
            beside=by.beside,
        )
        if spec.dry_run:
            ids, now = self._store.ids, self._store.now()
            return await self._store.read(lambda: foresee(ids, now, spec, self._rules, by.actor))
        created = await self._store.run(script)
        if created.created:
            wake_jobs(self._bus)
        return created


def create(
    dialect: Dialect,
    ids: Ids,
    now: float,
    *,
    spec: JobSpec,
    rules: FleetRules,
    actor: str,
    excluded_voters: Sequence[str],
    beside: Beside | None,
) -> Script[Created]:
    yield from begin(beside, now)
    created = yield from _existing(spec)
    if created is not None:
        yield from end(beside, created, now)
        return created
    new = yield from _new(ids, now, spec, rules, actor=actor, excluded_voters=excluded_voters)
    if not (yield from add_job(new.job)):
        created = yield from _existing(spec)
        assert created is not None, "another transaction has made the job"
        yield from end(beside, created, now)
        return created
    job = new.job
    executions = _executions(spec, rules, new.hosts)
    deltas, record_id = yield from add_executions(
        job, executions, ids, now, record_id=ids.record(now), recorder=dialect
    )
    if new.approval is None:
        yield from announce(OutboxKind.PLAN_JOB, [job.id], now)
    else:
        yield from asking.add_request(new.approval)
    created = Created(job, created=True, approval=new.approval)
    yield from end(beside, created, now)
    yield from record(dialect, record_id, now, [_event(job, now)], deltas)
    return created


def foresee(ids: Ids, now: float, spec: JobSpec, rules: FleetRules, actor: str) -> Script[Created]:
    """What the creation would make. Reads only."""
    new = yield from _new(ids, now, spec, rules, actor=actor, excluded_voters=(actor,))
    return Created(new.job, created=False, approval=new.approval, hosts=tuple(new.hosts))


def _by_external_id(project: str, external_id: str) -> Script[Rows]:
    return (yield call(own("job_by_external_id"), project=project, external_id=external_id))


def _existing(spec: JobSpec) -> Script[Created | None]:
    """The job that an earlier request has made. IdempotencyConflict if that one was another."""
    if spec.external_id is None:
        return None
    rows = yield from _by_external_id(spec.project, spec.external_id)
    if not rows:
        return None
    job = JOBS.read(rows[0])
    if job.request_hash != spec.request_hash:
        raise IdempotencyConflict(
            f"external_id '{spec.external_id}' made job {job.id} from another request: use a new id for new "
            "work"
        )
    return Created(job, created=False)


class _New(msgspec.Struct, frozen=True):
    """A job that was not written yet."""

    job: Job
    hosts: list[Host]
    approval: ApprovalRequest | None


def _new(
    ids: Ids,
    now: float,
    spec: JobSpec,
    rules: FleetRules,
    *,
    actor: str,
    excluded_voters: Sequence[str],
) -> Script[_New]:
    blocks = yield from read_blocks(spec.project, spec.command_type, now)
    whole = blocks.ask_facts or asking.ask_facts(rules)
    targets = yield from resolve(spec.project, spec.hosts, spec.selector, whole=whole)
    check_targets(spec, len(targets.hosts))
    digest = pinned_digest(spec, spec.definition, targets.hosts, blocks)
    job = Job(
        id=JOB_PREFIX + ids.task(now).replace("-", ""),
        project=spec.project,
        external_id=spec.external_id,
        request_hash=spec.request_hash,
        spec_json=stored(spec),
        excluded_json=_excluded_json(targets, blocks),
        digest=digest,
        approval_state=ApprovalState.NOT_REQUIRED,
        hosts=len(targets.hosts),
        created_by=actor,
        reason=spec.reason,
        parent_id=spec.parent_job_id,
        created_at=now,
        not_after=now + spec.not_after_seconds,
        due_at=now,
    )
    rule = yield from asking.find_rule(spec, targets.hosts, rules)
    job, approval = asking.judged(asking.excluding(job, excluded_voters), rule, ids, now)
    rollout = Rollout(policy=spec.rollout, state=begin_rollout(job.hosts))
    return _New(with_rollout(job, rollout), targets.hosts, approval)


def _excluded_json(targets: Targets, blocks: BlocksInForce) -> str:
    found = [Excluded(host.name, reason) for host, reason in targets.excluded[:EXCLUDED_MAX]]
    for host in targets.hosts if blocks.any else ():
        if len(found) >= EXCLUDED_MAX:
            break
        verdict = blocks.verdict(host)
        if verdict is not None:
            detail = blocks.judged(verdict)[1].detail
            found.append(Excluded(host.name, "block", detail, held=isinstance(verdict, Held)))
    return codec.dumps(msgspec.to_builtins(found))


def _executions(spec: JobSpec, rules: FleetRules, hosts: Sequence[Host]) -> NewExecutions:
    rule = RetryRule(
        max_retries=spec.max_retries, base_seconds=spec.base_seconds, cap_seconds=spec.cap_seconds
    )
    return NewExecutions(
        hosts,
        spec.priority,
        retry_rule.max_attempts(rule, idempotent=spec.idempotent),
        retry_rule.task_options(rule, lost_after_seconds=rules.lost_after_seconds),
    )


def _event(job: Job, now: float) -> NewEvent:
    return job_event(
        "job.created",
        job,
        now,
        external_id=job.external_id,
        hosts=job.hosts,
        status=job.status.value,
        approval_state=job.approval_state.value,
        actor=job.created_by,
        digest=job.digest,
    )
