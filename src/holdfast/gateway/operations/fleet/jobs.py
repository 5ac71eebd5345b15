"""Operations on jobs: create, list, read, executions, output.

Promises: an execution is read through its job, and a job by its own project: what is foreign looks like what
does not exist. An agent reads the jobs and executions of its host.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from holdfast.core.access import ALL_PROJECTS
from holdfast.core.check import check_choice
from holdfast.core.fleet.jobs.folded import GROUPS_SHOWN
from holdfast.core.fleet.jobs.request import JobRequest
from holdfast.core.fleet.model import Job
from holdfast.core.output import StreamName
from holdfast.core.rights import Operation
from holdfast.core.token import BOOTSTRAP
from holdfast.core.wire import make_cursor, parse_cursor
from holdfast.errors import InvalidInput, NotFound
from holdfast.fleet.jobs.create import Created
from holdfast.fleet.jobs.reads import ExecutionView
from holdfast.fleet.views import jobs as views, matrix as matrix_view, outputs as output_views
from holdfast.fleet.views.whole import whole_job
from holdfast.gateway import redacting
from holdfast.gateway.operations.call import Answer, Call, missing
from holdfast.gateway.operations.fleet.scope import own_host, page, place, project_of
from holdfast.gateway.operations.output import output_answer
from holdfast.gateway.operations.terms import read_terms
from holdfast.queue.by import By
from holdfast.queue.views import View
from holdfast.sync.worker.reads import PAGE_BYTES

O: Final = Operation  # noqa: E741
NOUN: Final = "job"
TEXTS: Final = ("command", "reason")
"""Texts of users in the row of a job."""
USAGE: Final = "status:STATUS, host:NAME, parent:JOB and project:NAME"


# -- creation ----------------------------------------------------------------------------------------


async def create(call: Call, body: JobRequest) -> Answer:
    """Makes a job, or finds the one that the same request has made."""
    project = project_of(call, O.JOBS_CREATE, body.project)
    request = replace(body, project=project)
    if request.parent_job_id is not None:
        request = replace(request, parent_job_id=await _parent(call, project, body))
    owners = await token_owners(call)
    async with call.services.turns.turn(_key(call, request)):
        made = await call.services.fleet.jobs.create(
            request, new_job_by(call, project, body.reason), excluded_voters=owners
        )
    return job_answer(made, dry_run=body.dry_run)


def _key(call: Call, request: JobRequest) -> str:
    """What equal requests have in common. A request without a key is like no other."""
    if request.external_id is not None:
        return f"external {request.project} {request.external_id}"
    if call.incoming is not None:
        return f"webhook {call.incoming.source.id} {call.incoming.message_id}"
    return f"request {call.request_id}"


async def create_signed(call: Call, source: str, body: JobRequest) -> Answer:
    """The same under the name of a source that signs its requests: the signature was checked before."""
    return await create(call, body)


async def _parent(call: Call, project: str, body: JobRequest) -> str:
    try:
        return (await call.services.fleet.job_reads.find(body.parent_job_id or "", [project])).id
    except NotFound:
        raise InvalidInput(
            f"parent_job_id is '{body.parent_job_id}': project '{project}' has no such job"
        ) from None


def new_job_by(call: Call, project: str, reason: str) -> By:
    actor = call.authorise(O.JOBS_CREATE, project=project).actor
    return call.by(
        O.JOBS_CREATE,
        project=project,
        subject=lambda made: made.job.id,
        actor=actor,
        reason=reason,
        answer=job_answer,
        has_changed=lambda made: made.created,
    )


def job_answer(made: Created, *, dry_run: bool = False) -> Answer:
    body = views.created(made, dry_run=dry_run)
    return Answer(body, 202 if made.created else 200, None if dry_run else made.job.version)


async def token_owners(call: Call) -> list[str]:
    """Who made the credential of the request, and so must not approve what it asks for. The administrator of
    the server has made the first ones: that says nothing about who uses them."""
    owner = ""
    if call.incoming is not None:
        owner = call.incoming.source.created_by
    elif call.token_id is not None:
        token = await call.services.tokens.get(call.token_id)
        owner = "" if token is None else token.created_by
    return [] if owner in ("", BOOTSTRAP.name) else [owner]


# -- reads -------------------------------------------------------------------------------------------


async def find(
    call: Call,
    *,
    project: str | None = None,
    q: str = "",
    status: str | None = None,
    host: str | None = None,
    parent: str | None = None,
    after: str | None = None,
    limit: int = 100,
) -> Answer:
    """One page of jobs, the latest first."""
    terms = read_terms(q, ("status", "host", "parent", "project"), USAGE)
    project = terms.get("project", project)
    projects = _projects(call, project)
    of = f"jobs {project} {q} {status} {host} {parent}"
    host_id = own_host(call) or await _host_id(call, terms.get("host", host), project)
    rows = await call.services.fleet.job_reads.list(
        projects=projects,
        status=terms.get("status", status),
        parent_id=terms.get("parent", parent),
        host_id=host_id,
        before=place(after, of=of) or None,
        limit=limit,
    )
    items = [job_row(call, row) for row in rows]
    return Answer(page(rows, limit, of=of, key=lambda job: job.id, items=items))


def _projects(call: Call, project: str | None) -> list[str] | None:
    """The projects of a list. None: all."""
    call.authorise_any(O.JOBS_READ, owner_node=call.principal.node)
    if project is not None and project != ALL_PROJECTS:
        return [project_of(call, O.JOBS_READ, project)]
    return None if call.projects is None else sorted(call.projects)


async def _host_id(call: Call, host: str | None, project: str | None) -> str | None:
    if host is None:
        return None
    return (await call.services.fleet.hosts.get(call.home if project is None else project, host)).id


def job_row(call: Call, job: Job) -> View:
    return redacting.texts(call.services.redaction, views.job_row(job), TEXTS)


async def get(
    call: Call, job_id: str, *, project: str | None = None, drift: bool = False
) -> Answer:
    """One job with its counts. `drift`: also how its hosts have changed since, which reads all of them.
    An agent gets neither that nor the hosts that were left out."""
    job = await readable(call, O.JOBS_READ, job_id, project)
    is_of_host = own_host(call) is not None
    body, version = await whole_job(
        call.services.fleet, job, call.services.now(), with_drift=drift and not is_of_host
    )
    if is_of_host:
        body = {**body, "excluded": []}  # names of other hosts, as the drift has them
    return Answer(body, version=version)


async def plan(
    call: Call,
    job_id: str,
    *,
    project: str | None = None,
    after: str | None = None,
    limit: int = 100,
) -> Answer:
    """What would run on each host, and why not."""
    job = await readable(call, O.JOBS_READ, job_id, project)
    of = f"plan {job.id}"
    rows = await call.services.fleet.job_reads.plan(job, after=_nth(after, of), limit=limit)
    own = own_host(call)
    items = [views.planned(row) for row in rows if own in (None, row.execution.host_id)]
    following = make_cursor((rows[-1].execution.nth,), of=of) if len(rows) == limit else None
    return Answer({"items": items, "next": following})


async def executions(
    call: Call,
    job_id: str,
    *,
    project: str | None = None,
    status: str | None = None,
    kind: str | None = None,
    host: str | None = None,
    wave: int | None = None,
    after: str | None = None,
    limit: int = 100,
) -> Answer:
    """One page of executions. A filter that matches few may give a short page with a cursor."""
    job = await readable(call, O.JOBS_READ, job_id, project)
    of = f"executions {job.id} {status} {kind} {host} {wave}"
    found = await call.services.fleet.job_reads.executions(
        job,
        status=status,
        kind=kind,
        host=own_host(call) or host,
        wave=wave,
        after=_nth(after, of),
        limit=limit,
    )
    following = None if found.next is None else make_cursor((found.next,), of=of)
    items = [views.execution(view, job) for view in found.items]
    return Answer({"items": items, "next": following})


async def execution(
    call: Call, job_id: str, execution_id: str, *, project: str | None = None
) -> Answer:
    job, view = await readable_execution(call, job_id, execution_id, project)
    return Answer(views.execution(view, job), version=view.task.version)


async def why(call: Call, job_id: str, execution_id: str, *, project: str | None = None) -> Answer:
    job, view = await readable_execution(call, job_id, execution_id, project)
    return Answer(views.why(await call.services.fleet.reasons.why(job, view)))


async def logs(
    call: Call,
    job_id: str,
    execution_id: str,
    *,
    project: str | None = None,
    stream: str = StreamName.STDOUT.value,
    start: int = 0,
    limit_bytes: int = PAGE_BYTES,
) -> Answer:
    """A part of a stream of an execution's latest run."""
    _, view = await readable_execution(call, job_id, execution_id, project)
    found = await call.services.fleet.job_outputs.log(
        view, stream=stream, start=start, limit_bytes=limit_bytes
    )
    return output_answer(found)


async def matrix(
    call: Call, job_id: str, *, project: str | None = None, names: bool = False
) -> Answer:
    """Where each host of a job stands. `names`: also which hosts they are."""
    job = await readable(call, O.JOBS_READ, job_id, project)
    if own_host(call) is not None:
        raise missing(NOUN, job_id)
    found = await call.services.fleet.job_matrix.cells(job, names=names)
    return Answer(matrix_view.matrix(found, job), version=job.version)


async def output(
    call: Call,
    job_id: str,
    *,
    project: str | None = None,
    stream: str = StreamName.STDOUT.value,
    limit: int = GROUPS_SHOWN,
) -> Answer:
    """The outputs of all hosts, with equal ones once."""
    job = await readable(call, O.JOBS_READ, job_id, project)
    if own_host(call) is not None:
        raise missing(NOUN, job_id)
    name = check_choice("stream", stream, StreamName).value
    found = await call.services.fleet.job_outputs.folded(job, stream=name, limit=limit)
    return Answer(output_views.folded(found, name))


# -- parts -------------------------------------------------------------------------------------------


async def readable(call: Call, operation: Operation, ref: str, project: str | None = None) -> Job:
    """The job of an id or an external id, judged by its own project. An agent finds those of its host."""
    own = call.principal.node
    call.authorise_any(operation, owner_node=own)
    job = await known(call, ref, project)
    call.authorise(operation, project=job.project, owner_node=own, noun=NOUN, id=ref)
    host = own_host(call)
    if host is not None:
        found = await call.services.fleet.job_reads.executions(job, host=host, limit=1)
        if not found.items:
            raise missing(NOUN, ref)
    return job


async def known(call: Call, ref: str, project: str | None) -> Job:
    """The job, if it is in a project of the principal."""
    projects = None if call.projects is None else sorted(call.projects)
    if project is not None:
        projects = [project] if projects is None or project in projects else []
    try:
        return await call.services.fleet.job_reads.find(ref, projects)
    except NotFound:
        raise missing(NOUN, ref) from None


async def readable_execution(
    call: Call, job_id: str, execution_id: str, project: str | None
) -> tuple[Job, ExecutionView]:
    """An execution by its id, or by the name of its host."""
    job = await readable(call, O.JOBS_READ, job_id, project)
    reads = call.services.fleet.job_reads
    try:
        view: ExecutionView | None = (await reads.execution(execution_id))[1]
    except NotFound:
        found = await reads.executions(job, host=execution_id, limit=1)
        view = found.items[0] if found.items else None
    own = own_host(call)
    if view is None or view.execution.job_id != job.id or own not in (None, view.execution.host_id):
        error = missing("execution", execution_id)
        if own is None:
            error.args = (
                f"job {job_id} has no host and no execution '{execution_id}': see the executions of the job",
            )
        raise error
    return job, view


def _nth(after: str | None, of: str) -> int | None:
    if after is None:
        return None
    values = parse_cursor(after, of=of)
    if len(values) != 1 or not isinstance(values[0], int):
        raise InvalidInput("after is not a cursor of this list: give one that it gave")
    return values[0]
