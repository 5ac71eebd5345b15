"""`holdfast sync status|log|fix-expired-locks`: the exchange with nodes."""

from __future__ import annotations

import re
from datetime import datetime
from operator import itemgetter
from typing import Annotated, Any, Final

from cyclopts import Parameter

from holdfast.app import TaskQueue
from holdfast.cli.api import answer_of, calls_of, v2
from holdfast.cli.lists import ALL, asked_of
from holdfast.cli.options import COMMON, Common, Flag, Limit, Query
from holdfast.cli.output.printer import Printer
from holdfast.cli.output.table import Column
from holdfast.cli.output.times import length
from holdfast.cli.projects import check_projects
from holdfast.cli.session import with_queue
from holdfast.core.search import Query as Search, parse
from holdfast.core.search.keys import Key, Kind, table
from holdfast.core.search.matching import matches
from holdfast.core.task import DEFAULT_PROJECT

Project = Annotated[str, Parameter(help="The project.")]
LOG_KEYS: Final = table(
    Key("id", Kind.TEXT),
    Key("at", Kind.TIME),
    *(Key(name, Kind.TEXT) for name in ("node", "op", "task", "outcome", "error")),
)
"""The keys of `-q` in the log."""


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
    query: Query = None,
    after: Annotated[str | None, Parameter(help="The last id of the previous page.")] = None,
    limit: Limit = 50,
    common: Common = COMMON,
) -> None:
    """List what nodes did, oldest first."""
    check_projects(common, [project])
    given = {"taskId": task, "nodeId": node, "outcome": outcome}
    wanted = None if query is None else parse(query, LOG_KEYS)

    async def work(queue: TaskQueue) -> tuple[list[dict[str, Any]], str | None]:
        calls, items, place = await calls_of(queue), list[dict[str, Any]](), after
        while True:
            asked = {**given, "after": place, "limit": asked_of(limit, len(items))}
            page = (await calls.call("GET", v2("log", project), query=asked)).body
            items += [each for each in page["entries"] if wanted is None or _is_in(wanted, each)]
            place = page["nextCursor"]
            is_read = limit != ALL and (wanted is None or len(items) >= limit)
            if place is None or is_read:
                return items, place

    items, following = with_queue(common, work)
    printer = Printer(common)
    printer.rows(items, _columns(), empty="the log has no such entries")
    if following is not None:
        printer.note(f"more: --after {following}")


def _is_in(wanted: Search, entry: dict[str, Any]) -> bool:
    at = datetime.fromisoformat(entry["at"]).timestamp()
    names = {"node": entry["nodeId"], "task": entry["taskId"], "id": str(entry["id"]), "at": at}
    return matches(wanted, entry | names, at, LOG_KEYS)


def fix_expired_locks(
    *,
    project: Annotated[str | None, Parameter(help="Only of this project.")] = None,
    limit: Annotated[int, Parameter(name=("--limit", "-n"), help="At most this many.")] = 100,
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
    return ", ".join(_figure(name, n) for name, n in group.items() if n) or "none"


def _figure(name: str, n: float) -> str:
    """A figure of the protocol in words: `soonestExpiryMs` 10784 is "soonest expiry 10.8s"."""
    words = re.sub(r"([A-Z])", lambda found: f" {found[1].lower()}", name)
    if words.endswith(" ms"):
        return f"{words.removesuffix(' ms')} {length(n / 1000)}"
    if words.startswith("seconds "):
        return f"{words.removeprefix('seconds ')} {length(n)}"
    return f"{words} {n}"


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
