"""`holdfast run`: one command on many hosts.

Promises: prints what will happen before it happens: the waves, the limits, the hosts that are left out and
why, and who must approve. `--plan` writes nothing. The exit code says how the job stands (`job_view`).
"""

from __future__ import annotations

from typing import Annotated, Any

from cyclopts import Parameter

from holdfast.app import TaskQueue
from holdfast.cli.api import calls_of, v1
from holdfast.cli.commands.fleet.flags import named_by_flags
from holdfast.cli.commands.fleet.job_ref import read_job
from holdfast.cli.commands.fleet.job_view import (
    approval_of,
    command_of,
    cut,
    excluded_of,
    limits_of,
    made_exit,
    rule_of,
    window_of,
)
from holdfast.cli.commands.fleet.made import made_lines
from holdfast.cli.commands.fleet.rehearse import ASSUMED, Assumed, rehearsed
from holdfast.cli.commands.fleet.run_request import Rollout, What
from holdfast.cli.commands.fleet.watch import watch_job
from holdfast.cli.follow import Patience
from holdfast.cli.options import COMMON, Common, Flag, Progress, Project, Reason
from holdfast.cli.output.printer import Printer
from holdfast.cli.output.table import Item
from holdfast.cli.problem import Usage
from holdfast.cli.session import with_queue
from holdfast.cli.simulation import NO_FAULT_OPTIONS, FaultOptions

WHAT = What()
ROLLOUT = Rollout()


@named_by_flags()
def run(
    command: Annotated[str, Parameter(help="The command; some types have none.")] = "",
    /,
    *,
    hosts: Annotated[str, Parameter(help="A selector of hosts, e.g. role=web.")],
    external_id: Annotated[
        str | None, Parameter(help="Your name of the job: the same again is the same job.")
    ] = None,
    plan: Annotated[
        bool, Parameter(name=("--plan", "--dry-run"), negative="", help="Only show the plan.")
    ] = False,
    rehearse: Annotated[
        Flag, Parameter(help="Only show what would happen, on simulated hosts.")
    ] = False,
    watch: Annotated[Flag, Parameter(help="Show the job until it has ended.")] = False,
    progress: Annotated[
        Progress, Parameter(help="How --watch shows it; auto: by whether there is a terminal.")
    ] = Progress.AUTO,
    reason: Reason = "",
    project: Project = None,
    what: What = WHAT,
    rollout: Rollout = ROLLOUT,
    assumed: Assumed = ASSUMED,
    faults: FaultOptions = NO_FAULT_OPTIONS,
    common: Common = COMMON,
) -> int:
    """Run a command on hosts. Exit code 8 if the job waits for an approval; with --watch how it ended."""
    body = what.request() | {"command": command, "selector": hosts, "reason": reason}
    if (request := rollout.request()) is not None:
        body["rollout"] = request
    given = {"external_id": external_id, "project": project, "dry_run": plan or None}
    body |= {name: value for name, value in given.items() if value is not None}
    if rehearse:
        return rehearsed(common, body, assumed, faults)
    if assumed != ASSUMED or faults != NO_FAULT_OPTIONS:
        raise Usage("these are faults of simulated hosts: give --rehearse too")
    if plan:
        _print_plan(common, body, with_queue(common, lambda q: _post(q, body)))
        return 0
    made, job = with_queue(common, lambda queue: _make(queue, body))
    if not watch or (Printer(common).is_table and progress in (Progress.AUTO, Progress.TTY)):
        _print_made(common, made, job)
    if not watch:
        return made_exit(job, created=made["created"])
    return watch_job(common, job["id"], progress=progress, patience=Patience(None), project=project)


async def _post(queue: TaskQueue, body: dict[str, Any]) -> Item:
    made: Item = (await (await calls_of(queue)).call("POST", v1("jobs"), body)).body
    return made


async def _make(queue: TaskQueue, body: dict[str, Any]) -> tuple[Item, Item]:
    calls = await calls_of(queue)
    made: Item = (await calls.call("POST", v1("jobs"), body)).body
    return made, await read_job(calls, made["job_id"])


def _print_made(common: Common, made: Item, job: Item) -> None:
    item = job | {"created": made["created"]}
    Printer(common).one(item, made_lines(job, created=made["created"]), name=job["id"])


def _print_plan(common: Common, body: dict[str, Any], made: Item) -> None:
    lines = [
        ("plan", command_of(body)),
        ("hosts", f"{made['hosts']}: {cut(made['folded'])}"),
        ("waves", cut(", ".join(map(str, made["waves"])))),
        ("window", window_of(made)),
        ("halts above", limits_of(made)),
        *excluded_of(made["excluded"]),
        ("approval", approval_of(made) or "not needed"),
        ("rule", rule_of(made)),
        ("digest", made["digest"]),
        ("written", "nothing"),
    ]
    Printer(common).one(made, lines, names=[each["host"] for each in made["plan"]])
