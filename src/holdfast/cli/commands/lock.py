"""`holdfast lock list|show|revoke`: who holds what, and taking it away."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, TypeVar

from cyclopts import Parameter

from holdfast.cli.options import COMMON, Common, Limit, Reason
from holdfast.cli.output.printer import Printer
from holdfast.cli.output.table import Column
from holdfast.cli.output.times import length, stamped
from holdfast.cli.session import actor, check_exists, store_url
from holdfast.primitives.locks import Audit, LeaseInfo, Locks

T = TypeVar("T")
Resource = Annotated[str, Parameter(help="The name that is locked.")]


def list_(
    *,
    after: Annotated[str, Parameter(help="The last resource of the page before.")] = "",
    limit: Limit = 50,
    common: Common = COMMON,
) -> None:
    """List what is held, by name."""

    async def work(locks: Locks) -> list[dict[str, Any]]:
        return [_view(info) for info in await locks.list(after=after, limit=limit)]

    items = _with_locks(common, work)
    Printer(common).rows(items, _columns(), empty="no locks are held")


def show(resource: Resource, /, *, common: Common = COMMON) -> None:
    """Show a lock with those who wait for it and what operators did."""
    info = _with_locks(common, lambda locks: locks.show(resource))
    item = _view(info)
    item["waiters"] = [waiter._asdict() for waiter in info.waiters]
    item["audit"] = [_audit(each) for each in info.audit]
    state = f"held by {info.owner} for {length(info.held_seconds)}" if info.is_held else "free"
    lines = [(resource, state), ("fence", str(info.fence))]
    if info.is_held:
        lines.append(("ends", f"in {length(info.seconds_left)}, unless it is renewed"))
    lines += [
        (f"waits {place}", f"{waiter.owner} since {length(waiter.waited_seconds)}")
        for place, waiter in enumerate(info.waiters, 1)
    ]
    lines += [
        (each["at_iso"], f"{each['action']} by {each['actor']}: {each['reason'] or 'no reason'}")
        for each in item["audit"]
    ]
    Printer(common).one(item, lines, name=resource)


def revoke(resource: Resource, /, *, reason: Reason = "", common: Common = COMMON) -> None:
    """Take a lock from its holder; the fence rises, so that its late writes are refused."""
    done = _with_locks(common, lambda locks: locks.revoke(resource, by=actor(), reason=reason))
    item = _audit(done)
    text = f"taken from {done.owner}; the fence is {done.fence} now"
    Printer(common).one(item, [(resource, text)], name=resource)


def _with_locks(common: Common, work: Callable[[Locks], Awaitable[T]]) -> T:
    """Opens the locks of the store, does the work, closes them."""
    logging.getLogger("holdfast").setLevel(logging.ERROR)
    found = store_url(common)
    check_exists(found)

    async def session() -> T:
        async with Locks.connect(found.value, owner=actor()) as locks:
            return await work(locks)

    return asyncio.run(session())


def _view(info: LeaseInfo) -> dict[str, Any]:
    return {
        "resource": info.resource,
        "is_held": info.is_held,
        "owner": info.owner,
        "fence": info.fence,
        "claim_id": info.claim_id,
        "ttl_seconds": info.ttl_seconds,
        "held_seconds": round(info.held_seconds, 3),
        "seconds_left": round(info.seconds_left, 3),
    }


def _audit(audit: Audit) -> dict[str, Any]:
    fields = audit._asdict()
    del fields["at"]
    return {**stamped(at=audit.at), **fields}


def _columns() -> list[Column]:
    return [
        Column("RESOURCE", lambda item: item["resource"], flex=True),
        Column("OWNER", lambda item: item["owner"], flex=True),
        Column("FENCE", lambda item: item["fence"]),
        Column("HELD", lambda item: length(item["held_seconds"])),
        Column("LEFT", lambda item: length(item["seconds_left"]) if item["is_held"] else "ended"),
    ]
