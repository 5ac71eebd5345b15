"""`holdfast job list|show|plan|executions|output|why`: what became of jobs."""

from __future__ import annotations

from typing import Annotated, Any

from cyclopts import Parameter

from holdfast.app import TaskQueue
from holdfast.cli.api import calls_of, v1
from holdfast.cli.commands.fleet.folded import print_folded
from holdfast.cli.commands.fleet.job_ref import job_ref, of_job, read_job
from holdfast.cli.commands.fleet.job_view import EXECUTION_COLUMNS, job_columns, job_lines
from holdfast.cli.options import COMMON, Common, Flag, Limit, Project
from holdfast.cli.output.printer import Printer
from holdfast.cli.output.table import Column, Item
from holdfast.cli.session import with_queue
from holdfast.core.fleet.model import JobStatus
from holdfast.core.fleet.status import ExecutionKind, ExecutionStatus
from holdfast.core.output import StreamName

JobId = Annotated[str, Parameter(help="A job's id, a prefix of it, its external id, or @last.")]
After = Annotated[str | None, Parameter(help="Where the previous page ended, as it has said.")]


def list_(
    *,
    status: Annotated[JobStatus | None, Parameter(help="Only in this status.")] = None,
    host: Annotated[str | None, Parameter(help="Only those that have this host.")] = None,
    query: Annotated[
        str | None,
        Parameter(
            name=("--query", "-q"), help="status:, host:, parent: and project: with a value."
        ),
    ] = None,
    project: Project = None,
    limit: Limit = 50,
    after: After = None,
    common: Common = COMMON,
) -> None:
    """List jobs, the latest first."""
    given = {"status": status, "host": host, "q": query, "project": project}

    async def work(queue: TaskQueue) -> tuple[Any, float]:
        calls = await calls_of(queue)
        answer = await calls.call("GET", v1("jobs"), query=given | {"limit": limit, "after": after})
        return answer.body, await queue.parts.sessions.now()

    page, now = with_queue(common, work)
    _rows(common, page, job_columns(now), "no jobs")


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
    project: Project = None,
    limit: Limit = 50,
    after: After = None,
    common: Common = COMMON,
) -> None:
    """Show for each host of a job its wave, and whether it would run or why not."""
    query: dict[str, object] = {"limit": limit, "after": after}
    page = of_job(common, job, "GET", "plan", project=project, query=query)
    _rows(common, page, PLAN_COLUMNS, "no hosts")


def executions(
    job: JobId,
    /,
    *,
    status: Annotated[ExecutionStatus | None, Parameter(help="Only in this status.")] = None,
    kind: Annotated[ExecutionKind | None, Parameter(help="Only of this fine kind.")] = None,
    host: Annotated[str | None, Parameter(help="Only of this host.")] = None,
    wave: Annotated[int | None, Parameter(help="Only of this wave, from 1.")] = None,
    project: Project = None,
    limit: Limit = 50,
    after: After = None,
    common: Common = COMMON,
) -> None:
    """List the executions of a job: one for each host. `-o name` prints the hosts."""
    query: dict[str, object] = {"status": status, "kind": kind, "host": host, "wave": wave}
    query |= {"limit": limit, "after": after}
    page = of_job(common, job, "GET", "executions", project=project, query=query)
    _rows(common, page, EXECUTION_COLUMNS, "no executions")


def output(
    job: JobId,
    /,
    *,
    stream: Annotated[StreamName, Parameter(help="The stream of the runs.")] = StreamName.STDOUT,
    limit: Annotated[
        int, Parameter(name=("--limit", "-n"), help="At most this many different outputs.")
    ] = 20,
    project: Project = None,
    common: Common = COMMON,
) -> None:
    """Print the outputs of all hosts, equal ones once, the most frequent first."""
    query: dict[str, object] = {"stream": stream, "limit": limit}
    item = of_job(common, job, "GET", "output", project=project, query=query)
    print_folded(Printer(common), item)


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


def _rows(common: Common, page: dict[str, Any], columns: list[Column], empty: str) -> None:
    printer = Printer(common)
    printer.rows(page["items"], columns, empty=empty)
    if page["next"] is not None:
        printer.note(f"more: --after {page['next']}")


PLAN_COLUMNS = [
    Column("HOST", lambda item: item["host"], flex=True),
    Column("WAVE", lambda item: item["wave"]),
    Column("RUNS", lambda item: "yes" if item["would_run"] else "no"),
    Column("REASON", lambda item: item["reason"], flex=True),
]
