"""`holdfast lock list|show|revoke`: locks, their holders and waiters."""

from __future__ import annotations

from typing import Annotated, Any

from cyclopts import Parameter

from holdfast.cli.api import with_operations
from holdfast.cli.operations import Operations
from holdfast.cli.options import COMMON, Common, Limit, Reason
from holdfast.cli.output.printer import Printer
from holdfast.cli.output.table import Column
from holdfast.cli.output.times import length
from holdfast.cli.session import by
from holdfast.queue import views

Resource = Annotated[str, Parameter(help="The name of the lock.")]


def list_(
    *,
    after: Annotated[str, Parameter(help="The last name of the previous page.")] = "",
    limit: Limit = 50,
    common: Common = COMMON,
) -> None:
    """List held locks, by name."""

    async def work(operations: Operations) -> list[dict[str, Any]]:
        page = await operations.locks.list(after=after, limit=limit)
        return [views.lock(info) for info in page]

    items = with_operations(common, work)
    Printer(common).rows(items, _columns(), empty="no locks are held")


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


def revoke(resource: Resource, /, *, reason: Reason = "", common: Common = COMMON) -> None:
    """Take a lock from its holder; the fence increases, so late writes of the holder are refused."""
    done = with_operations(common, lambda to: to.locks.revoke(resource, by(reason)))
    item = views.lock_act(done)
    text = f"taken from {done.owner}; the fence is {done.fence} now"
    Printer(common).one(item, [(resource, text)], name=resource)


def _columns() -> list[Column]:
    return [
        Column("RESOURCE", lambda item: item["resource"], flex=True),
        Column("OWNER", lambda item: item["owner"], flex=True),
        Column("FENCE", lambda item: item["fence"]),
        Column("HELD", lambda item: length(item["held_seconds"])),
        Column("LEFT", lambda item: length(item["remaining_seconds"]) if item["held"] else "ended"),
    ]
