"""`holdfast queue list|show|pause|resume`."""

from __future__ import annotations

from typing import Annotated, Any

from cyclopts import Parameter

from holdfast.cli.api import answer_of, v1, with_operations
from holdfast.cli.operations import Operations
from holdfast.cli.options import COMMON, Common, Reason
from holdfast.cli.output.printer import Printer
from holdfast.cli.output.table import Column
from holdfast.cli.output.times import length, relative
from holdfast.cli.session import by, with_parts
from holdfast.cli.use_cases import UseCases
from holdfast.core.task import Status
from holdfast.queue import views

Name = Annotated[str, Parameter(help="The queue's name.")]


def list_(*, common: Common = COMMON) -> None:
    """List queues with their waiting, running and dead tasks."""

    async def work(parts: UseCases) -> tuple[list[dict[str, Any]], float]:
        items = [views.queue(view) for view in await parts.queues.list()]
        return items, await parts.sessions.now()

    items, now = with_parts(common, work)
    Printer(common).rows(items, _columns(now), empty="no queues yet: no task was enqueued")


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


def pause(name: Name, /, *, reason: Reason = "", common: Common = COMMON) -> None:
    """Stop starting tasks of a queue, on all nodes; running tasks go on."""

    async def work(operations: Operations) -> dict[str, Any]:
        await operations.queues.pause(name, by(reason))
        return views.queue(await operations.queues.get(name))

    _print(common, with_operations(common, work), "paused")


def resume(name: Name, /, *, reason: Reason = "", common: Common = COMMON) -> None:
    """Resume a paused queue."""

    async def work(operations: Operations) -> dict[str, Any]:
        await operations.queues.get(name)
        await operations.queues.resume(name, by(reason))
        return views.queue(await operations.queues.get(name))

    _print(common, with_operations(common, work), "resumed")


def _print(common: Common, item: dict[str, Any], done: str) -> None:
    Printer(common).one(item, [(item["name"], done)], name=item["name"])


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
