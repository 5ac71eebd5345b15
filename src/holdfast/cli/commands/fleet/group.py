"""`holdfast group list|show|add|edit|remove`: named selectors of hosts."""

from __future__ import annotations

from typing import Annotated, Any

from cyclopts import Parameter

from holdfast.app import TaskQueue
from holdfast.cli.api import answer_of, calls_of, v1
from holdfast.cli.commands.each import Changed, answer, change_each
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
    if dry_run:
        _foresee(common, name, selector, project)
        return
    body = {"name": name, "selector": selector, "project": project, "reason": reason}
    _print(common, answer_of(common, "POST", v1("groups"), body))


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
    if dry_run:
        _foresee(common, name, selector, project, exists=True)
        return
    body = {"selector": selector, "reason": reason, "expected_version": expect_version}
    _print(common, answer_of(common, "PATCH", v1("groups", name), body, query={"project": project}))


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
        path, query = v1("groups", name), {"project": project}
        if dry_run:
            item = (await calls.call("GET", path, query=query)).body
            view = {"dry_run": True, "would": "remove", "group": item}
            return Changed(item["name"], view, "would be removed")
        given = query | {"reason": reason, "expected_version": expect_version}
        item = (await calls.call("DELETE", path, query=given)).body
        return Changed(item["name"], item, "removed")

    return change_each(common, names, change, "group", expect_version=expect_version)


def _foresee(
    common: Common, name: str, selector: str, project: str | None, *, exists: bool = False
) -> None:
    async def work(queue: TaskQueue) -> Changed:
        calls = await calls_of(queue)
        if exists:
            await calls.call("GET", v1("groups", name), query={"project": project})
        found = await _hosts(calls, selector, project)
        view: dict[str, Any] = {"dry_run": True, "would": "edit" if exists else "add"}
        view |= {"name": name, "selector": selector, **found}
        return Changed(name, view, f"would stand for {found['hosts']} hosts: {found['folded']}")

    answer(common, [with_queue(common, work)], [])


async def _hosts(calls: Calls, selector: str, project: str | None) -> Item:
    query = {"selector": selector, "project": project}
    found = (await calls.call("GET", v1("hosts", "select"), query=query)).body
    return {"hosts": found["count"], "folded": found["folded"]}


def _print(common: Common, item: Item) -> None:
    lines = [
        (item["name"], item["selector"]),
        ("project", item["project"]),
        ("hosts", item.get("hosts")),
        ("names", item.get("folded")),
        ("version", item["version"]),
    ]
    Printer(common).one(item, lines, name=item["name"])
