"""`holdfast group list|show|add|edit|remove`: named selectors of hosts."""

from __future__ import annotations

from typing import Annotated, Any

from cyclopts import Parameter

from holdfast.app import TaskQueue
from holdfast.cli.api import calls_of, v1
from holdfast.cli.commands.each import Changed, change_each
from holdfast.cli.commands.fleet.host import Selector
from holdfast.cli.lists import page_of, print_list
from holdfast.cli.options import (
    COMMON,
    After,
    Common,
    DryRun,
    ExpectVersion,
    Limit,
    Project,
    Query,
    Reason,
)
from holdfast.cli.output.printer import Printer
from holdfast.cli.output.table import Column, Item
from holdfast.cli.session import with_queue
from holdfast.client.calls import Calls

Name = Annotated[str, Parameter(help="The group's name, without '@'.")]


def list_(
    *,
    query: Query = None,
    project: Project = None,
    limit: Limit = 50,
    after: After = None,
    common: Common = COMMON,
) -> None:
    """List groups of hosts, by name."""
    page = page_of(common, v1("groups"), q=query, project=project, limit=limit, after=after)
    columns = [
        Column("NAME", lambda item: item["name"], flex=True),
        Column("SELECTOR", lambda item: item["selector"], flex=True),
        Column("VERSION", lambda item: item["version"]),
    ]
    print_list(common, page, columns, "no groups: `holdfast group add NAME SELECTOR` makes one")


def show(name: Name, /, *, project: Project = None, common: Common = COMMON) -> None:
    """Show a group with the hosts that it stands for now."""

    async def work(queue: TaskQueue) -> Item:
        calls = await calls_of(queue)
        query = {"project": project}
        item: Item = (await calls.call("GET", v1("groups", name), query=query)).body
        return item | await _hosts(calls, item["selector"], project)

    _print(common, with_queue(common, work))


def add(
    name: Name,
    selector: Selector,
    /,
    *,
    project: Project = None,
    reason: Reason = "",
    dry_run: DryRun = False,
    common: Common = COMMON,
) -> None:
    """Add a group: a name for a selector."""
    body = {"name": name, "selector": selector, "project": project, "reason": reason}
    _write(common, "POST", v1("groups"), body, project, dry_run=dry_run)


def edit(
    name: Name,
    selector: Selector,
    /,
    *,
    project: Project = None,
    reason: Reason = "",
    expect_version: ExpectVersion = None,
    dry_run: DryRun = False,
    common: Common = COMMON,
) -> None:
    """Give a group another selector. Jobs keep the hosts that they have pinned."""
    body = {"selector": selector, "reason": reason, "expected_version": expect_version}
    _write(common, "PATCH", v1("groups", name), body, project, dry_run=dry_run)


def remove(
    names: Annotated[list[str], Parameter(help="Names of groups, or - for stdin.")],
    /,
    *,
    project: Project = None,
    reason: Reason = "",
    expect_version: ExpectVersion = None,
    dry_run: DryRun = False,
    common: Common = COMMON,
) -> int:
    """Remove groups. Their hosts stay."""

    async def change(calls: Calls, name: str) -> Changed:
        given = {"project": project, "reason": reason, "expected_version": expect_version}
        item = (await calls.call("DELETE", v1("groups", name), query=given)).body
        return Changed(item["name"], item, "removed")

    return change_each(
        common, names, change, "group", expect_version=expect_version, dry_run=dry_run
    )


def _write(
    common: Common,
    method: str,
    path: str,
    body: dict[str, Any],
    project: str | None,
    *,
    dry_run: bool,
) -> None:
    """Adds or changes a group. A dry run also shows its hosts."""

    async def work(queue: TaskQueue) -> Item:
        query = {} if method == "POST" else {"project": project}
        calls = await calls_of(queue, dry_run=dry_run)
        item: Item = (await calls.call(method, path, body, query=query)).body
        return item | await _hosts(calls, item["selector"], project) if dry_run else item

    _print(common, with_queue(common, work), dry_run=dry_run)


async def _hosts(calls: Calls, selector: str, project: str | None) -> Item:
    query = {"selector": selector, "project": project}
    found = (await calls.call("GET", v1("hosts", "select"), query=query)).body
    return {"hosts": found["count"], "folded": found["folded"]}


def _print(common: Common, item: Item, *, dry_run: bool = False) -> None:
    lines = [
        (item["name"], item["selector"]),
        ("project", item["project"]),
        ("hosts", item.get("hosts")),
        ("names", item.get("folded")),
        ("version", item["version"]),
    ]
    Printer(common, dry_run=dry_run).one(item, lines, name=item["name"])
