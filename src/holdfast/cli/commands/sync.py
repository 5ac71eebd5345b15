"""`holdfast sync status|log|fix-expired-locks`: the exchange with nodes."""

from __future__ import annotations

from operator import itemgetter
from typing import Annotated, Any

from cyclopts import Parameter

from holdfast.cli.api import answer_of, v2
from holdfast.cli.options import COMMON, Common, Flag, Limit
from holdfast.cli.output.printer import Printer
from holdfast.cli.output.table import Column
from holdfast.cli.projects import check_projects
from holdfast.core.task import DEFAULT_PROJECT

Project = Annotated[str, Parameter(help="The project.")]


def status(project: Project = DEFAULT_PROJECT, /, *, common: Common = COMMON) -> None:
    """Show the figures of a project: tasks, nodes, locks, conflicts, pushes."""
    check_projects(common, [project])
    item = answer_of(common, "GET", v2("status", project))
    groups = ("tasks", "nodes", "locks", "conflicts", "interventions", "decisions", "sync", "lag")
    lines = [(name, _figures(item[name])) for name in groups]
    Printer(common).one(item, [(project, f"clock {item['serverClock']}"), *lines], name=project)


def log(
    project: Project = DEFAULT_PROJECT,
    /,
    *,
    node: Annotated[str | None, Parameter(help="Only acts of this node.")] = None,
    task: Annotated[str | None, Parameter(help="Only acts on this task.")] = None,
    outcome: Annotated[str | None, Parameter(help="Only this outcome, e.g. refused.")] = None,
    after: Annotated[int | None, Parameter(help="The last id of the previous page.")] = None,
    limit: Limit = 50,
    common: Common = COMMON,
) -> None:
    """List what nodes did, oldest first."""
    check_projects(common, [project])
    query: dict[str, object] = {
        "taskId": task,
        "nodeId": node,
        "outcome": outcome,
        "after": after,
        "limit": limit,
    }
    items = answer_of(common, "GET", v2("log", project), query=query)["entries"]
    Printer(common).rows(items, _columns(), empty="the log has no such entries")


def fix_expired_locks(
    *,
    project: Annotated[str | None, Parameter(help="Only of this project.")] = None,
    limit: Limit = 100,
    dry_run: Annotated[Flag, Parameter(help="Only show them.")] = False,
    common: Common = COMMON,
) -> None:
    """End runs whose lease has ended. A sweeper does the same by itself."""
    body = {"projectId": project, "limit": limit, "dryRun": dry_run}
    items = answer_of(common, "POST", v2("fix-expired-locks"), body)["tasks"]
    columns = [
        Column("TASK", lambda item: item["taskId"], flex=True),
        Column("NODE", lambda item: item["lockedBy"]),
        Column("STATUS", lambda item: item["newStatus"]),
        Column("FENCE", lambda item: item["fence"]),
    ]
    Printer(common).rows(items, columns, empty="no lock has expired")


def _figures(group: dict[str, Any]) -> str:
    return ", ".join(f"{name} {n}" for name, n in group.items() if n) or "none"


def _columns() -> list[Column]:
    return [
        Column("ID", itemgetter("id")),
        Column("AT", itemgetter("at")),
        Column("NODE", itemgetter("nodeId"), flex=True),
        Column("OP", itemgetter("op")),
        Column("TASK", lambda item: item["taskId"] or "", flex=True),
        Column("OUTCOME", itemgetter("outcome")),
        Column("ERROR", lambda item: item["error"] or ""),
    ]
