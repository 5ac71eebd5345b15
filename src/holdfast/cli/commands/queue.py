"""`holdfast queue list|pause|resume`."""

from __future__ import annotations

from typing import Annotated, Any

from cyclopts import Parameter

from holdfast.app import TaskQueue
from holdfast.cli.commands.task import now_of
from holdfast.cli.options import COMMON, Common, Reason
from holdfast.cli.output.printer import Printer
from holdfast.cli.output.table import Column
from holdfast.cli.output.times import relative, stamped
from holdfast.cli.session import actor, with_queue
from holdfast.core.task import Status
from holdfast.errors import NotFound

Name = Annotated[str, Parameter(help="The queue's name.")]


def list_(*, common: Common = COMMON) -> None:
    """List queues with what waits, runs and is dead."""

    async def work(q: TaskQueue) -> tuple[list[dict[str, Any]], float]:
        return await describe(q), await now_of(q)

    items, now = with_queue(common, work)
    Printer(common).rows(items, _columns(now), empty="no queues yet: no task was enqueued")


def pause(name: Name, /, *, reason: Reason = "", common: Common = COMMON) -> None:
    """Start nothing more of a queue, anywhere; what runs goes on."""

    async def work(q: TaskQueue) -> dict[str, Any]:
        await q.pause_queue(name, actor=actor(), reason=reason)
        return await _one(q, name)

    _print(common, with_queue(common, work), "paused")


def resume(name: Name, /, *, common: Common = COMMON) -> None:
    """Let a paused queue go on."""

    async def work(q: TaskQueue) -> dict[str, Any]:
        await _one(q, name)
        await q.resume_queue(name, actor=actor())
        return await _one(q, name)

    _print(common, with_queue(common, work), "resumed")


async def describe(queue: TaskQueue) -> list[dict[str, Any]]:
    """Every queue that has tasks, types or a pause."""
    return [
        {
            "name": view.name,
            **{status.value: view.counts.get(status.value, 0) for status in Status},
            "is_paused": view.is_paused,
            **stamped(paused_at=view.paused_at),
            "paused_by": view.paused_by,
            "reason": view.reason,
        }
        for view in await queue.get_queues()
    ]


async def _one(queue: TaskQueue, name: str) -> dict[str, Any]:
    for item in await describe(queue):
        if item["name"] == name:
            return item
    raise NotFound(f"there is no queue '{name}': see holdfast queue list")


def _print(common: Common, item: dict[str, Any], done: str) -> None:
    Printer(common).one(item, [(item["name"], done)], name=item["name"])


def _columns(now: float) -> list[Column]:
    def state(item: dict[str, Any]) -> str:
        if not item["is_paused"]:
            return "open"
        why = f": {item['reason']}" if item["reason"] else ""
        return f"paused {relative(item['paused_at'], now)} by {item['paused_by']}{why}"

    counted = [
        Column(status.value.upper(), lambda item, status=status: item[status.value])  # type: ignore[misc]
        for status in (Status.QUEUED, Status.RUNNING, Status.BLOCKED, Status.PAUSED)
    ]
    return [
        Column("QUEUE", lambda item: item["name"]),
        *counted,
        Column("DEAD", lambda item: item["failed"]),
        Column("COMPLETED", lambda item: item["completed"]),
        Column("STATE", state, flex=True, style=lambda text: "" if text == "open" else "yellow"),
    ]
