"""`holdfast job list|show|plan|executions|output|why`: what became of jobs."""

from __future__ import annotations

from typing import Annotated, Any

from cyclopts import Parameter

from holdfast.app import TaskQueue
from holdfast.cli.api import calls_of, v1
from holdfast.cli.commands.fleet.folded import errors_of, has_text, print_folded
from holdfast.cli.commands.fleet.job_ref import job_ref, of_job, read_job
from holdfast.cli.commands.fleet.job_view import EXECUTION_COLUMNS, job_columns, job_lines
from holdfast.cli.lists import page_of, print_list
from holdfast.cli.options import COMMON, After, Common, Flag, Limit, Project, Query
from holdfast.cli.output.printer import Printer
from holdfast.cli.output.table import Column, Item
from holdfast.cli.session import with_queue
from holdfast.core.fleet.model import JobStatus
from holdfast.core.fleet.status import ExecutionKind, ExecutionStatus
from holdfast.core.output import StreamName

JobId = Annotated[str, Parameter(help="A job's id, a prefix of it, its external id, or @last.")]


def list_(
    *,
    status: Annotated[JobStatus | None, Parameter(help="Only in this status.")] = None,
    host: Annotated[str | None, Parameter(help="Only those that have this host.")] = None,
    query: Query = None,
    project: Project = None,
    limit: Limit = 50,
    after: After = None,
    common: Common = COMMON,
) -> None:
    """List jobs, the latest first."""
    given: dict[str, Any] = {"status": status, "host": host, "project": project, "after": after}
    page = page_of(common, v1("jobs"), q=query, limit=limit, **given)
    print_list(
        common, page, job_columns, "no jobs: `holdfast run COMMAND --hosts SELECTOR` makes one"
    )


def show(
    job: JobId,
    /,
    *,
    drift: Annotated[
        Flag, Parameter(help="Also how the hosts have changed since the job was made.")
    ] = False,
    project: Project = None,
    common: Common = COMMON,
) -> None:
    """Show a job: counts by status and kind, waves, budget, approval, and hosts that do not run."""

    async def work(queue: TaskQueue) -> Item:
        calls = await calls_of(queue)
        ref = await job_ref(calls, job, project)
        return await read_job(calls, ref, project, drift=drift or None)

    item = with_queue(common, work)
    Printer(common).one(item, job_lines(item), name=item["id"])


def plan(
    job: JobId,
    /,
    *,
    query: Query = None,
    project: Project = None,
    limit: Limit = 50,
    after: After = None,
    common: Common = COMMON,
) -> None:
    """Show for each host of a job its wave, and whether it would run or why not."""
    path = v1("jobs", _whole(common, job, project), "plan")
    page = page_of(common, path, q=query, project=project, limit=limit, after=after)
    print_list(common, page, PLAN_COLUMNS, "no hosts")


def executions(
    job: JobId,
    /,
    *,
    status: Annotated[ExecutionStatus | None, Parameter(help="Only in this status.")] = None,
    kind: Annotated[ExecutionKind | None, Parameter(help="Only of this fine kind.")] = None,
    host: Annotated[str | None, Parameter(help="Only of this host.")] = None,
    wave: Annotated[int | None, Parameter(help="Only of this wave, from 1.")] = None,
    query: Query = None,
    project: Project = None,
    limit: Limit = 50,
    after: After = None,
    common: Common = COMMON,
) -> None:
    """List the executions of a job: one for each host. `-o name` prints the hosts."""
    given: dict[str, Any] = {"status": status, "kind": kind, "host": host, "wave": wave}
    given |= {"project": project, "after": after}
    path = v1("jobs", _whole(common, job, project), "executions")
    page = page_of(common, path, q=query, limit=limit, **given)
    print_list(common, page, EXECUTION_COLUMNS, "no executions")


def output(
    job: JobId,
    /,
    *,
    stream: Annotated[
        StreamName | None,
        Parameter(help="Only this stream of the runs; with -o json stdout unless it is given."),
    ] = None,
    limit: Annotated[
        int, Parameter(name=("--limit", "-n"), help="At most this many different outputs.")
    ] = 20,
    project: Project = None,
    common: Common = COMMON,
) -> None:
    """Print the outputs of all hosts, equal ones once, the most frequent first."""
    printer = Printer(common)
    is_both = stream is None and printer.is_table
    wanted = list(StreamName) if is_both else [stream or StreamName.STDOUT]

    async def work(queue: TaskQueue) -> tuple[str, list[Item]]:
        calls = await calls_of(queue)
        ref = await job_ref(calls, job, project)
        query = {"project": project, "limit": limit}
        path = v1("jobs", ref, "output")
        found = [(await calls.call("GET", path, query=query | {"stream": s})).body for s in wanted]
        return ref, found

    ref, found = with_queue(common, work)
    if not is_both:
        print_folded(printer, found[0], ref)
        return
    errors = errors_of(found[1])
    if has_text(found[0]) or errors is None:
        print_folded(printer, found[0], ref)
    if errors is not None:
        print_folded(printer, errors, ref)


def why(
    job: JobId,
    host: Annotated[str, Parameter(help="A host of the job, or the id of its execution.")],
    /,
    *,
    project: Project = None,
    common: Common = COMMON,
) -> None:
    """Show why a host of a job is where it is."""
    print_why(common, of_job(common, job, "GET", "executions", host, "why", project=project))


def print_why(common: Common, item: Item) -> None:
    lines = [
        (item["host"], f"{item['status']} ({item['kind']})"),
        ("job", item["job_id"]),
        ("execution", item["execution_id"]),
        *((reason["code"], reason["text"]) for reason in item["reasons"]),
    ]
    Printer(common).one(item, lines, name=item["execution_id"])


def _whole(common: Common, job: str, project: str | None) -> str:
    async def work(queue: TaskQueue) -> str:
        return await job_ref(await calls_of(queue), job, project)

    return with_queue(common, work)


PLAN_COLUMNS = [
    Column("HOST", lambda item: item["host"], flex=True),
    Column("WAVE", lambda item: item["wave"]),
    Column("RUNS", lambda item: "yes" if item["would_run"] else "no"),
    Column("REASON", lambda item: item["reason"], flex=True),
]
