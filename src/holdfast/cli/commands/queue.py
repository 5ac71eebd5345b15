"""`holdfast queue list|show|pause|resume`."""

from __future__ import annotations

from typing import Annotated, Any

from cyclopts import Parameter

from holdfast.cli.api import answer_of, v1
from holdfast.cli.commands.each import Changed, change_each
from holdfast.cli.lists import page_of, print_list
from holdfast.cli.options import COMMON, VERSIONED, Common, Query, VersionedChange
from holdfast.cli.output.printer import Printer
from holdfast.cli.output.table import Column
from holdfast.cli.output.times import length, relative
from holdfast.client.calls import Calls
from holdfast.core.task import Status

Name = Annotated[str, Parameter(help="The queue's name.")]
Names = Annotated[list[str], Parameter(help="Names of queues, or - to read them from stdin.")]


def list_(*, query: Query = None, common: Common = COMMON) -> None:
    """List queues with their waiting, running and dead tasks."""
    page = page_of(common, v1("queues"), q=query)
    print_list(common, page, _columns, "no queues: `holdfast enqueue TYPE` makes one")


def show(name: Name, /, *, common: Common = COMMON) -> None:
    """Show a queue: how many tasks it has in each status, and whether it is paused."""
    item = answer_of(common, "GET", v1("queues", name))
    counts = [(status, n) for status, n in item["counts"].items() if n]
    oldest = item["oldest_due_seconds"]
    lines: list[tuple[str, object]] = [
        (item["name"], "open" if item["paused_at"] is None else "paused"),
        ("paused by", item["paused_by"]),
        ("reason", item["reason"]),
        ("oldest due", None if oldest is None else f"{length(oldest)} ago"),
        *counts,
    ]
    Printer(common).one(item, lines, name=item["name"])


def pause(names: Names, /, *, given: VersionedChange = VERSIONED, common: Common = COMMON) -> int:
    """Stop starting tasks of queues, on all nodes; running tasks go on."""
    return _change(common, names, "pause", "paused", given)


def resume(names: Names, /, *, given: VersionedChange = VERSIONED, common: Common = COMMON) -> int:
    """Resume paused queues."""
    return _change(common, names, "resume", "resumed", given)


def _change(common: Common, names: list[str], verb: str, done: str, given: VersionedChange) -> int:
    async def change(calls: Calls, name: str) -> Changed:
        item = (await calls.call("POST", v1("queues", name, verb), given.body())).body
        return Changed(name, item, done)

    version = given.expect_version
    return change_each(
        common, names, change, "queue", expect_version=version, dry_run=given.dry_run, one=True
    )


def _columns(now: float) -> list[Column]:
    def state(item: dict[str, Any]) -> str:
        if item["paused_at"] is None:
            return "open"
        why = f": {item['reason']}" if item["reason"] else ""
        return f"paused {relative(item['paused_at'], now)} by {item['paused_by']}{why}"

    def counted(title: str, status: Status) -> Column:
        return Column(title, lambda item: item["counts"].get(status.value, 0))

    shown = (Status.QUEUED, Status.RUNNING, Status.BLOCKED, Status.PAUSED)
    return [
        Column("QUEUE", lambda item: item["name"]),
        *(counted(status.value.upper(), status) for status in shown),
        counted("DEAD", Status.FAILED),
        counted("COMPLETED", Status.COMPLETED),
        Column("STATE", state, flex=True, style=lambda text: "" if text == "open" else "yellow"),
    ]
