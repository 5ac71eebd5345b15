"""`holdfast schedule list|add|remove|pause|resume|run`. Schedules fire while a worker of the store runs."""

from __future__ import annotations

from typing import Annotated, Any

from cyclopts import Parameter

from holdfast.cli import values
from holdfast.cli.api import answer_of, v1, with_operations
from holdfast.cli.operations import Operations
from holdfast.cli.options import COMMON, Common, Reason
from holdfast.cli.output.printer import Printer
from holdfast.cli.output.table import Column
from holdfast.cli.output.times import relative
from holdfast.cli.session import by, with_parts
from holdfast.cli.use_cases import UseCases
from holdfast.core.codec import dumps
from holdfast.queue import views

Name = Annotated[str, Parameter(help="The schedule's name.")]


def list_(*, common: Common = COMMON) -> None:
    """List cron schedules with when they fire next."""

    async def work(parts: UseCases) -> tuple[list[dict[str, Any]], float]:
        items = [views.schedule(schedule) for schedule in await parts.schedules.list()]
        return items, await parts.sessions.now()

    items, now = with_parts(common, work)
    Printer(common).rows(items, _columns(now), empty="no schedules")


def add(
    name: Name,
    spec: Annotated[str, Parameter(help="Five fields of cron, '@every 5m', or '@daily'.")],
    type: Annotated[str, Parameter(help="A type that a worker has registered.")],
    /,
    *pairs: Annotated[str, Parameter(help="The payload as key=value.")],
    json: Annotated[str | None, Parameter(help="The payload as JSON; - reads stdin.")] = None,
    timezone: Annotated[str, Parameter(help="A time zone such as Europe/Prague.")] = "UTC",
    queue: Annotated[str | None, Parameter(help="Another queue than the type's.")] = None,
    priority: Annotated[str | None, Parameter(help="critical, high, normal or low.")] = None,
    reason: Reason = "",
    common: Common = COMMON,
) -> None:
    """Add or change a cron schedule."""
    payload = values.payload(pairs, json)

    async def work(operations: Operations) -> tuple[dict[str, Any], float]:
        await operations.schedules.put(
            name,
            by(reason),
            spec=spec,
            type=type,
            payload=payload,
            timezone=timezone,
            queue=queue,
            priority=priority,
        )
        return views.schedule(await operations.schedules.get(name)), await operations.sessions.now()

    item, now = with_operations(common, work)
    fires = relative(item["next_at"], now)
    Printer(common).one(item, [(name, f"fires {fires} ({item['next_at']})")], name=name)


def remove(name: Name, /, *, reason: Reason = "", common: Common = COMMON) -> None:
    """Remove a schedule; the tasks that it enqueued stay."""

    async def work(operations: Operations) -> dict[str, Any]:
        item = views.schedule(await operations.schedules.get(name))
        await operations.schedules.remove(name, by(reason))
        return item

    Printer(common).one(with_operations(common, work), [(name, "removed")], name=name)


def pause(name: Name, /, *, reason: Reason = "", common: Common = COMMON) -> None:
    """Stop firing a schedule until it is resumed."""

    async def work(operations: Operations) -> dict[str, Any]:
        return views.schedule(await operations.schedules.pause(name, by(reason)))

    Printer(common).one(with_operations(common, work), [(name, "paused")], name=name)


def resume(name: Name, /, *, reason: Reason = "", common: Common = COMMON) -> None:
    """Resume a paused schedule; it fires at its next time."""

    async def work(operations: Operations) -> dict[str, Any]:
        return views.schedule(await operations.schedules.resume(name, by(reason)))

    item = with_operations(common, work)
    Printer(common).one(item, [(name, f"fires at {item['next_at']}")], name=name)


def run(name: Name, /, *, reason: Reason = "", common: Common = COMMON) -> None:
    """Enqueue the task of a schedule now; the schedule stays as it is. Prints the id of the task."""
    path = v1("schedules", name, "run")
    task = answer_of(common, "POST", path, {"reason": reason})["task"]
    Printer(common).one(task, [(name, f"enqueued {task['id']}")], name=task["id"])


def _columns(now: float) -> list[Column]:
    return [
        Column("NAME", lambda item: item["name"]),
        Column("SPEC", lambda item: item["spec"]),
        Column("TIMEZONE", lambda item: item["timezone"]),
        Column("TYPE", lambda item: item["type"], flex=True),
        Column("QUEUE", lambda item: item["queue"]),
        Column("OWNER", lambda item: item["owner"] or "run time"),
        Column("NEXT", lambda item: "paused" if item["paused"] else relative(item["next_at"], now)),
        Column("FIRED", lambda item: relative(item["fired_at"], now)),
        Column("PAYLOAD", lambda item: dumps(item["payload"]), flex=True),
    ]
