"""`holdfast schedule list|show|add|remove|pause|resume|run`. They fire while a worker of the store runs."""

from __future__ import annotations

from typing import Annotated, Any

from cyclopts import Parameter

from holdfast.app import TaskQueue
from holdfast.cli import values
from holdfast.cli.api import calls_of, v1
from holdfast.cli.commands.each import Changed, change_each
from holdfast.cli.lists import page_of, print_list
from holdfast.cli.options import CHANGE, COMMON, VERSIONED, Change, Common, Query, VersionedChange
from holdfast.cli.output.printer import Printer
from holdfast.cli.output.table import Column
from holdfast.cli.output.times import relative
from holdfast.cli.session import with_queue
from holdfast.client.calls import Calls
from holdfast.core.codec import dumps

Name = Annotated[str, Parameter(help="The schedule's name.")]
Names = Annotated[list[str], Parameter(help="Names of schedules, or - to read them from stdin.")]


def list_(*, query: Query = None, common: Common = COMMON) -> None:
    """List cron schedules with when they fire next."""
    page = page_of(common, v1("schedules"), q=query)
    print_list(common, page, _columns, "no schedules: `holdfast schedule add` makes one")


def show(name: Name, /, *, common: Common = COMMON) -> None:
    """Show a schedule with its next fires."""

    async def work(found: TaskQueue) -> tuple[dict[str, Any], float]:
        item = (await (await calls_of(found)).call("GET", v1("schedules", name))).body
        return item, await found.parts.sessions.now()

    item, now = with_queue(common, work)
    fired, following = item["fired_at"], item["upcoming"]
    lines: list[tuple[str, object]] = [
        (item["name"], "paused" if item["paused"] else f"fires {relative(item['next_at'], now)}"),
        ("spec", f"{item['spec']} ({item['timezone']})"),
        ("type", item["type"]),
        ("queue", item["queue"]),
        ("priority", item["priority"]),
        ("payload", dumps(item["payload"])),
        ("project", item["project"]),
        ("owner", item["owner"]),
        ("fired", "never" if fired is None else f"{relative(fired, now)} ({fired})"),
        *(("next" if n == 0 else "", each) for n, each in enumerate(following)),
        ("version", item["version"]),
    ]
    Printer(common).one(item, lines, name=item["name"])


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
    given: VersionedChange = VERSIONED,
    common: Common = COMMON,
) -> None:
    """Add or change a cron schedule."""
    fields = {"spec": spec, "type": type, "payload": values.payload(pairs, json)}
    fields |= {"timezone": timezone, "queue": queue, "priority": priority}

    async def work(found: TaskQueue) -> tuple[dict[str, Any], float]:
        calls = await calls_of(found, dry_run=given.dry_run)
        answer = await calls.call("PUT", v1("schedules", name), {**fields, **given.body()})
        return answer.body, await found.parts.sessions.now()

    item, now = with_queue(common, work)
    lines = [(name, f"fires {relative(item['next_at'], now)} ({item['next_at']})")]
    Printer(common, dry_run=given.dry_run).one(item, lines, name=name)


def remove(names: Names, /, *, given: Change = CHANGE, common: Common = COMMON) -> int:
    """Remove schedules; the tasks that they enqueued stay."""

    async def change(calls: Calls, name: str) -> Changed:
        query = {"reason": given.reason}
        item = (await calls.call("DELETE", v1("schedules", name), query=query)).body
        return Changed(name, item, "removed")

    return change_each(common, names, change, "schedule", dry_run=given.dry_run, one=True)


def pause(names: Names, /, *, given: VersionedChange = VERSIONED, common: Common = COMMON) -> int:
    """Stop firing schedules until they are resumed."""
    return _change(common, names, "pause", "paused", given)


def resume(names: Names, /, *, given: VersionedChange = VERSIONED, common: Common = COMMON) -> int:
    """Resume paused schedules; they fire at their next times."""
    return _change(common, names, "resume", "resumed", given)


def _change(common: Common, names: list[str], verb: str, done: str, given: VersionedChange) -> int:
    async def change(calls: Calls, name: str) -> Changed:
        item = (await calls.call("POST", v1("schedules", name, verb), given.body())).body
        fires = f"; fires at {item['next_at']}" if verb == "resume" else ""
        return Changed(name, item, f"{done}{fires}")

    version = given.expect_version
    return change_each(
        common, names, change, "schedule", expect_version=version, dry_run=given.dry_run, one=True
    )


def run(names: Names, /, *, given: Change = CHANGE, common: Common = COMMON) -> int:
    """Enqueue the tasks of schedules now; the schedules stay as they are. `-o name` prints the ids of the
    tasks."""

    async def change(calls: Calls, name: str) -> Changed:
        path = v1("schedules", name, "run")
        task = (await calls.call("POST", path, {"reason": given.reason})).body["task"]
        return Changed(task["id"], task, f"enqueued by {name}")

    return change_each(common, names, change, "schedule", dry_run=given.dry_run, one=True)


def _columns(now: float) -> list[Column]:
    return [
        Column("NAME", lambda item: item["name"]),
        Column("SPEC", lambda item: item["spec"]),
        Column("TIMEZONE", lambda item: item["timezone"], rank=1),
        Column("TYPE", lambda item: item["type"], flex=True),
        Column("QUEUE", lambda item: item["queue"], rank=2),
        Column("OWNER", lambda item: item["owner"] or "API", rank=3),
        Column("NEXT", lambda item: "paused" if item["paused"] else relative(item["next_at"], now)),
        Column("FIRED", lambda item: relative(item["fired_at"], now), rank=1),
        Column("PAYLOAD", lambda item: dumps(item["payload"]), flex=True, rank=4),
    ]
