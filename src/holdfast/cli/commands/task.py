"""`holdfast task list|show|why|history|interventions`: reading tasks."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

from cyclopts import Parameter

from holdfast.app import TaskQueue
from holdfast.cli.api import calls_of, v1
from holdfast.cli.ids import find_task
from holdfast.cli.lists import PAGE_MAX, page_of, print_list, print_pages
from holdfast.cli.options import COMMON, After, Common, Flag, Limit, Output, Query, TaskId
from holdfast.cli.output.colour import STATUS_STYLES
from holdfast.cli.output.printer import Printer
from holdfast.cli.output.table import Column, Item
from holdfast.cli.output.times import clock, relative
from holdfast.cli.problem import Usage
from holdfast.cli.projects import check_projects
from holdfast.cli.session import use_cases, with_parts, with_queue
from holdfast.cli.use_cases import TaskReads, UseCases
from holdfast.core.codec import dumps
from holdfast.core.fleet.model import FLEET_TYPE
from holdfast.core.search import narrowed, parse, show as as_text
from holdfast.core.task import Status, Task, described
from holdfast.queue import views
from holdfast.remote.tasks import BODIES_MAX


def list_(
    *,
    status: Annotated[Status | None, Parameter(help="Only in this status.")] = None,
    type: Annotated[str | None, Parameter(help="Only of this type.")] = None,
    queue: Annotated[str | None, Parameter(help="Only of this queue.")] = None,
    project: Annotated[str | None, Parameter(help="Only of this project.")] = None,
    query: Query = None,
    bodies: Annotated[
        Flag, Parameter(help="Whole tasks, with payload and result; for -o json or jsonl.")
    ] = False,
    limit: Limit = 50,
    after: Annotated[str | None, Parameter(help="The last id of the previous page.")] = None,
    common: Common = COMMON,
) -> None:
    """List tasks, newest first."""
    if bodies and common.output not in (Output.JSON, Output.JSONL):
        raise Usage("--bodies is for -o json and -o jsonl: a table has no room for payloads")
    if query is not None or bodies:
        terms = {"status": status, "type": type, "queue": queue, "project": project}
        is_alone = all(value is None for value in terms.values())
        given = query or ""
        text = given if is_alone else as_text(narrowed(parse(given), terms))
        _search(common, _Searched(text, bodies, project), limit, after)
        return

    is_all = (status, type, queue, project, after) == (None,) * 5
    empty = "no tasks: `holdfast enqueue TYPE` makes one" if is_all else "no tasks"

    async def work(parts: UseCases) -> int:
        now = await parts.sessions.now()

        async def read(after: str | None, limit: int) -> tuple[list[Item], str | None]:
            tasks = await parts.tasks.find(
                status=status, type=type, queue=queue, project=project, after=after, limit=limit
            )
            following = tasks[-1].id if len(tasks) == limit else None
            return [views.task_row(task, now) for task in tasks], following

        return await print_pages(
            Printer(common), read, _columns(now), empty, after=after, limit=limit
        )

    if not with_parts(common, work) and project is not None:
        _check_project(common, project)


def _check_project(common: Common, project: str) -> None:
    """NotFound if there is no such project: no task is in it, and it was not created."""

    async def work(parts: UseCases) -> bool:
        return bool(await parts.tasks.find(project=project, limit=1))

    if not with_parts(common, work):
        check_projects(common, [project])


class _Searched(NamedTuple):
    """What is searched."""

    q: str
    bodies: bool
    """Whether the answer has whole tasks."""
    project: str | None


def _search(common: Common, which: _Searched, limit: int, after: str | None) -> None:
    """Prints the tasks that match. The end of a page is a cursor of the API."""
    q, bodies, project = which
    most = BODIES_MAX if bodies else PAGE_MAX

    async def work(queue: TaskQueue) -> int:
        calls, now = await calls_of(queue), await queue.parts.sessions.now()

        async def read(after: str | None, limit: int) -> tuple[list[Item], str | None]:
            query: dict[str, object] = {"q": q, "limit": min(limit, most), "after": after}
            if bodies:
                query["bodies"] = True
            page = (await calls.call("GET", v1("tasks"), query=query)).body
            return page["items"], page["next"]

        printer, columns = Printer(common), _columns(now)
        return await print_pages(
            printer, read, columns, "no tasks", after=after, limit=limit, is_search=bodies
        )

    if not with_queue(common, work) and project is not None:
        _check_project(common, project)


def interventions(
    task_id: TaskId,
    /,
    *,
    query: Query = None,
    limit: Limit = 50,
    after: After = None,
    common: Common = COMMON,
) -> None:
    """List the interventions on a task, the latest first."""
    path = v1("tasks", whole_task(common, task_id), "interventions")
    columns = [
        Column("ID", lambda item: item["id"]),
        Column("TYPE", lambda item: item["type"]),
        Column("STATE", lambda item: item["state"]),
        Column("ACTOR", lambda item: item["actor"], flex=True),
        Column("ISSUED", lambda item: clock(item["issued_at"])),
        Column("REASON", lambda item: item["reason"], flex=True),
    ]
    page = page_of(common, path, q=query, limit=limit, after=after)
    print_list(common, page, columns, "no interventions")


def show(task_id: TaskId, /, *, common: Common = COMMON) -> None:
    """Show all fields of a task."""

    async def work(parts: UseCases) -> dict[str, Any]:
        return await whole(parts, await find_task(parts.tasks, task_id))

    item = with_parts(common, work)
    Printer(common).one(item, fields(item), name=item["id"])


def why(task_id: TaskId, /, *, common: Common = COMMON) -> None:
    """Show why a task is not running. Of an execution of a job: what the fleet knows about its host."""

    async def work(queue: TaskQueue) -> dict[str, Any]:
        parts = use_cases(queue)
        task = await find_task(parts.tasks, task_id)
        if task.type != FLEET_TYPE:
            return views.why(await parts.tasks.why(task.id))
        path = v1("jobs", task.payload["job"], "executions", task.id, "why")
        found: dict[str, Any] = (await (await calls_of(queue)).call("GET", path)).body
        return {"task_id": task.id, **found}

    item = with_queue(common, work)
    reasons = [(reason["code"], reason["text"]) for reason in item["reasons"]]
    lines = [("task", item["task_id"]), ("status", item["status"])]
    nothing = [("waiting", "nothing blocks it")]
    Printer(common).one(item, [*lines, *(reasons or nothing)], name=item["task_id"])


def history(task_id: TaskId, /, *, query: Query = None, common: Common = COMMON) -> None:
    """List the events of a task, oldest first."""
    path = v1("tasks", whole_task(common, task_id), "history")
    print_list(common, page_of(common, path, q=query), EVENT_COLUMNS, "no events: they were pruned")


def whole_task(common: Common, text: str) -> str:
    """The id of the task that the text stands for."""

    async def work(parts: UseCases) -> str:
        return (await find_task(parts.tasks, text)).id

    return with_parts(common, work)


async def whole(parts: TaskReads, task: Task) -> dict[str, Any]:
    """A task with its details."""
    return views.task(task, await parts.sessions.now(), await parts.tasks.details(task.id))


def fields(item: dict[str, Any]) -> list[tuple[str, object]]:
    """The fields that `show` prints, in order."""
    failure = item["failure"] or {}
    return [
        ("id", item["id"]),
        ("name", item["client_id"]),
        ("type", item["type"]),
        ("status", item["status"]),
        ("project", item["project"]),
        ("queue", item["queue"]),
        ("priority", item["priority"]),
        ("attempts", f"{item['attempts']} of {item['max_attempts']}"),
        ("deaths", item["deaths"] or None),
        ("payload", dumps(item["payload"])),
        ("tags", ", ".join(item["tags"])),
        ("metadata", dumps(item["metadata"]) if item["metadata"] else None),
        ("result", dumps(item["result"]) if item["result"] is not None else None),
        ("error", described(item["error"] or "", failure.get("error_type") or "")),
        ("failure", failure.get("kind")),
        ("fingerprint", item["fingerprint"]),
        ("progress", _reported(item["progress"])),
        ("created", item["created_at"]),
        ("due", item["due_at"]),
        ("started", item["started_at"]),
        ("finished", item["finished_at"]),
        ("node", item["node"]),
        ("aborted by" if item["status"] == Status.ABORTED else "held by", item["held_by"]),
        ("limits", ", ".join(item["limits"])),
        ("gate", item["gate"]),
        ("depends on", ", ".join(edge["id"] for edge in item["depends_on"])),
        ("dependents", ", ".join(item["dependents"])),
        ("idempotency key", item["idempotency_key"]),
    ]


def _reported(progress: dict[str, Any] | None) -> str | None:
    """The fields of the progress that the runner has reported."""
    if progress is None:
        return None
    return dumps({name: value for name, value in progress.items() if value or name == "done"})


def _columns(now: float) -> list[Column]:
    return [
        Column("ID", lambda item: item["id"]),
        Column("TYPE", lambda item: item["type"], flex=True),
        Column(
            "STATUS", lambda item: item["status"], style=lambda text: STATUS_STYLES.get(text, "")
        ),
        Column("PRIORITY", lambda item: item["priority"], rank=3),
        Column("QUEUE", lambda item: item["queue"], flex=True, rank=1),
        Column("ATTEMPTS", lambda item: f"{item['attempts']}/{item['max_attempts']}", rank=2),
        Column("CREATED", lambda item: relative(item["created_at"], now)),
        Column("ERROR", _what_ended, flex=True, rank=1),
    ]


def _what_ended(item: dict[str, Any]) -> str | None:
    is_aborted = item["status"] == Status.ABORTED and item["held_by"]
    return f"aborted by {item['held_by']}" if is_aborted else error_of(item)


def error_of(item: dict[str, Any]) -> str:
    """The error of a row, with its class."""
    return described(item["error"] or "", item.get("error_type") or "")


EVENT_COLUMNS = [
    Column("POSITION", lambda item: item["position"]),
    Column("AT", lambda item: clock(item["at"])),
    Column("KIND", lambda item: item["kind"]),
    Column("DATA", lambda item: said(item["data"]), flex=True),
]


def said(data: dict[str, Any]) -> str:
    """The fields of an event in one line."""
    return " ".join(
        f"{name}={_short(name, value)}" for name, value in data.items() if value not in (None, "")
    )


def _short(name: str, value: object) -> str:
    """A field in short form."""
    if isinstance(value, str):
        return clock(value) if name.endswith("_at") else value
    if isinstance(value, float):
        return f"{value:.3f}"
    return dumps(value)
