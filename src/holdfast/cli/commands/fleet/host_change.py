"""`holdfast host add|edit|label|remove`: changes of hosts."""

from __future__ import annotations

from typing import Annotated, Any

from cyclopts import Parameter

from holdfast.app import TaskQueue
from holdfast.cli.api import answer_of, calls_of, v1
from holdfast.cli.commands.each import Changed, answer, change_each, each
from holdfast.cli.commands.fleet.host import (
    Name,
    Selector,
    host_ref,
    print_host,
    shown_labels,
)
from holdfast.cli.options import COMMON, Common, DryRun, ExpectVersion, Project, Reason
from holdfast.cli.problem import Usage
from holdfast.cli.session import with_queue
from holdfast.client.calls import Calls
from holdfast.core.fleet.model import HostDriver
from holdfast.errors import NotFound
from holdfast.queue.problem import Problem

Labels = dict[str, str | None]
Driver = Annotated[HostDriver | None, Parameter(help="How commands reach the host.")]
Address = Annotated[str | None, Parameter(help="Where the host is reached, for the driver ssh.")]
Label = Annotated[
    list[str] | None,
    Parameter(name="--label", negative="", help="KEY=VALUE; may be given several times."),
]


def add(
    name: Annotated[str, Parameter(help="The host's name.")],
    /,
    *,
    driver: Driver = None,
    address: Address = None,
    label: Label = None,
    project: Project = None,
    reason: Reason = "",
    dry_run: DryRun = False,
    common: Common = COMMON,
) -> None:
    """Add a host. Its agent enrols with a join token, or adds the host itself."""
    labels = {key: value or "" for key, value in pairs(label or []).items()}
    body: dict[str, Any] = {
        "name": name,
        "driver": (driver or HostDriver.AGENT).value,
        "address": address or "",
    }
    body |= {"labels": labels, "project": project, "reason": reason}
    item = answer_of(common, "POST", v1("hosts"), body, dry_run=dry_run)
    print_host(common, item, dry_run=dry_run)


def edit(
    name: Name,
    /,
    *,
    driver: Driver = None,
    address: Address = None,
    state: Annotated[
        str | None, Parameter(help="active, or cordoned: it gets nothing new.")
    ] = None,
    label: Annotated[
        list[str] | None,
        Parameter(name="--label", negative="", help="KEY=VALUE sets a label, KEY- removes it."),
    ] = None,
    project: Project = None,
    reason: Reason = "",
    expect_version: ExpectVersion = None,
    dry_run: DryRun = False,
    common: Common = COMMON,
) -> None:
    """Change fields of a host. What is not given stays as it is."""
    fields: dict[str, Any] = {
        "driver": driver,
        "address": address,
        "state": state,
        "labels": None if label is None else pairs(label, removals=True),
    }
    given = {key: value for key, value in fields.items() if value is not None}
    if not given:
        raise Usage("nothing to change: give --driver, --address, --state or --label")
    ref = host_ref(common, name, project)
    path, query = v1("hosts", ref), {"project": project}
    body = given | {"reason": reason, "expected_version": expect_version}
    item = answer_of(common, "PATCH", path, body, query=query, dry_run=dry_run)
    print_host(common, item, dry_run=dry_run)


def label(
    selector: Selector,
    labels: Annotated[list[str], Parameter(help="KEY=VALUE sets a label, KEY- removes it.")],
    /,
    *,
    project: Project = None,
    reason: Reason = "",
    dry_run: DryRun = False,
    common: Common = COMMON,
) -> int:
    """Set and remove labels of the hosts of a selector. Exit code 3 if some could not be changed."""
    given: dict[str, Any] = {"labels": pairs(labels, removals=True)}

    async def change(calls: Calls, name: str) -> Changed:
        body, query = given | {"reason": reason}, {"project": project}
        item = (await calls.call("PATCH", v1("hosts", name), body, query=query)).body
        return Changed(item["name"], item, shown_labels(item) or "no labels")

    async def work(queue: TaskQueue) -> tuple[list[Changed], list[Problem]]:
        calls = await calls_of(queue, dry_run=dry_run)
        query = {"selector": selector, "project": project}
        found = (await calls.call("GET", v1("hosts", "select"), query=query)).body["hosts"]
        if not found:
            raise NotFound(f"no host is in the selection '{selector}'")
        return await each(calls, found, change)

    return answer(common, *with_queue(common, work), dry_run=dry_run)


def remove(
    names: Annotated[
        list[str], Parameter(help="Names, ids or prefixes of ids of hosts, or - for stdin.")
    ],
    /,
    *,
    project: Project = None,
    reason: Reason = "",
    expect_version: ExpectVersion = None,
    dry_run: DryRun = False,
    common: Common = COMMON,
) -> int:
    """Remove hosts. They get no executions any more; those that run go on. A host that is added again under
    its name has its id back."""

    async def change(calls: Calls, name: str) -> Changed:
        given = {"project": project, "reason": reason, "expected_version": expect_version}
        item = (await calls.call("DELETE", v1("hosts", name), query=given)).body
        return Changed(item["name"], item, "removed")

    refs = [host_ref(common, name, project) for name in names]
    return change_each(common, refs, change, "host", expect_version=expect_version, dry_run=dry_run)


def pairs(texts: list[str], *, removals: bool = False) -> Labels:
    """KEY=VALUE as a dictionary; KEY- as a value of None."""
    found: Labels = {}
    for text in texts:
        key, sign, value = text.partition("=")
        if sign and key:
            found[key] = value
        elif removals and text.endswith("-") and len(text) > 1:
            found[text[:-1]] = None
        else:
            or_removal = ", or KEY- to remove a label" if removals else ""
            raise Usage(f"'{text}' is not a label: write KEY=VALUE{or_removal}")
    return found
