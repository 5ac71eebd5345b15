"""`holdfast lock list|show|revoke`: locks, their holders and waiters."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from holdfast.cli.api import v1, with_operations
from holdfast.cli.commands.each import Changed, change_each
from holdfast.cli.lists import page_of
from holdfast.cli.options import CHANGE, COMMON, Change, Common, Limit, Query
from holdfast.cli.output.printer import Printer
from holdfast.cli.output.table import Column
from holdfast.cli.output.times import length
from holdfast.client.calls import Calls
from holdfast.queue import views

Resource = Annotated[str, Parameter(help="The name of the lock.")]
Resources = Annotated[list[str], Parameter(help="Names of locks, or - to read them from stdin.")]


def list_(
    *,
    query: Query = None,
    after: Annotated[str | None, Parameter(help="The last name of the previous page.")] = None,
    limit: Limit = 50,
    common: Common = COMMON,
) -> None:
    """List held locks, by name."""
    page = page_of(common, v1("locks"), q=query, behind=after, limit=limit)
    printer = Printer(common)
    printer.rows(page.items, _columns(), empty="no locks are held")
    if page.next is not None and page.items:
        printer.note(f"more: --after {page.items[-1]['resource']}")


def show(resource: Resource, /, *, common: Common = COMMON) -> None:
    """Show a lock with its waiters and the actions of operators."""
    info = with_operations(common, lambda operations: operations.locks.show(resource))
    item = views.whole_lock(info)
    state = f"held by {info.owner} for {length(info.held_seconds)}" if info.is_held else "free"
    lines = [(resource, state), ("fence", str(info.fence))]
    if info.is_held:
        lines.append(("ends", f"in {length(info.seconds_left)}, unless it is renewed"))
    lines += [
        (f"waits {place}", f"{waiter.owner} since {length(waiter.waited_seconds)}")
        for place, waiter in enumerate(info.waiters, 1)
    ]
    lines += [
        (each["at"], f"{each['action']} by {each['actor']}: {each['reason'] or 'no reason'}")
        for each in item["audit"]
    ]
    Printer(common).one(item, lines, name=resource)


def revoke(resources: Resources, /, *, given: Change = CHANGE, common: Common = COMMON) -> int:
    """Take locks from their holders; the fence increases, so late writes of a holder are refused."""

    async def change(calls: Calls, resource: str) -> Changed:
        path = v1("locks", resource, "revoke")
        item = (await calls.call("POST", path, {"reason": given.reason})).body
        return Changed(resource, item, f"taken from {item['owner']}; the fence is {item['fence']}")

    return change_each(common, resources, change, "lock", dry_run=given.dry_run, one=True)


def _columns() -> list[Column]:
    return [
        Column("RESOURCE", lambda item: item["resource"], flex=True),
        Column("OWNER", lambda item: item["owner"], flex=True),
        Column("FENCE", lambda item: item["fence"]),
        Column("HELD", lambda item: length(item["held_seconds"])),
        Column("LEFT", lambda item: length(item["remaining_seconds"]) if item["held"] else "ended"),
    ]
