"""`holdfast dlq list|groups|show`: reading dead letters, the tasks in status failed."""

from __future__ import annotations

from typing import Annotated, Any

from cyclopts import Parameter

from holdfast.cli.api import v1
from holdfast.cli.commands.task import error_of, fields, whole
from holdfast.cli.ids import find_task
from holdfast.cli.lists import page_of, print_list, print_pages, with_terms
from holdfast.cli.options import COMMON, Common, Limit, Query, TaskId
from holdfast.cli.output.printer import Printer
from holdfast.cli.output.table import Column, Item
from holdfast.cli.output.times import relative
from holdfast.cli.session import with_parts
from holdfast.cli.use_cases import DeadLetters, UseCases
from holdfast.core.task import Status
from holdfast.core.text import lines
from holdfast.errors import Conflict
from holdfast.queue import views
from holdfast.queue.dead_letters import DeadFilter

FINGERPRINT_CHARS = 24


def list_(
    *,
    type: Annotated[str | None, Parameter(help="Only of this type.")] = None,
    queue: Annotated[str | None, Parameter(help="Only of this queue.")] = None,
    fingerprint: Annotated[str | None, Parameter(help="Only of this group.")] = None,
    query: Query = None,
    limit: Limit = 50,
    after: Annotated[str | None, Parameter(help="The last id of the previous page.")] = None,
    common: Common = COMMON,
) -> None:
    """List dead letters, latest first."""
    if query is not None:
        q = with_terms(query, type=type, queue=queue, fingerprint=fingerprint)
        page = page_of(common, v1("dead-letters"), q=q, limit=limit, after=after)
        print_list(common, page, _columns, "no dead letters")
        return

    async def work(parts: UseCases) -> int:
        letters, now = parts.dead_letters, await parts.sessions.now()
        which = DeadFilter(type, queue, await full_fingerprint(letters, fingerprint))

        async def read(after: str | None, limit: int) -> tuple[list[Item], str | None]:
            last = None if after is None else await find_task(parts.tasks, after)
            tasks = await letters.page_after(which, last, limit=limit)
            following = tasks[-1].id if len(tasks) == limit else None
            return [views.task_row(task, now) for task in tasks], following

        return await print_pages(
            Printer(common), read, _columns(now), "no dead letters", after=after, limit=limit
        )

    with_parts(common, work)


def groups(*, query: Query = None, limit: Limit = 50, common: Common = COMMON) -> None:
    """Group dead letters by cause, the largest group first."""
    page = page_of(common, v1("dead-letters", "groups"), q=query, limit=limit)
    print_list(common, page, _group_columns, "no dead letters")


def show(task_id: TaskId, /, *, common: Common = COMMON) -> None:
    """Show a dead letter with the evidence of its last failure."""

    async def work(parts: UseCases) -> dict[str, Any]:
        task = await find_task(parts.tasks, task_id)
        if task.status is not Status.FAILED:
            raise Conflict(
                f"task {task.id} is {task.status}, not a dead letter: see holdfast task show {task.id}"
            )
        return await whole(parts, task)

    item = with_parts(common, work)
    printer = Printer(common)
    printer.one(item, fields(item), name=item["id"])
    traceback = item["failure"].get("traceback") if item["failure"] else ""
    if printer.is_table and traceback:
        print()
        print(lines(traceback))


async def full_fingerprint(letters: DeadLetters, text: str | None) -> str | None:
    """Completes a prefix of a group's fingerprint; a text that matches no group is returned as it is."""
    if text is None or len(text) >= FINGERPRINT_CHARS:
        return text
    fitting = [
        group.fingerprint
        for group in await letters.groups(limit=1000)
        if group.fingerprint.startswith(text)
    ]
    return fitting[0] if len(fitting) == 1 else text


def _columns(now: float) -> list[Column]:
    return [
        Column("ID", lambda item: item["id"]),
        Column("TYPE", lambda item: item["type"], flex=True),
        Column("FAILURE", lambda item: item["failure_kind"], rank=1),
        Column("ATTEMPTS", lambda item: f"{item['attempts']}/{item['max_attempts']}", rank=2),
        Column("DIED", lambda item: relative(item["finished_at"], now)),
        Column("ERROR", error_of, flex=True),
    ]


def _group_columns(now: float) -> list[Column]:
    return [
        Column("FINGERPRINT", lambda item: item["fingerprint"]),
        Column("COUNT", lambda item: item["count"]),
        Column("TYPE", lambda item: item["type"], flex=True),
        Column("FIRST", lambda item: relative(item["first_at"], now), rank=2),
        Column("LAST", lambda item: relative(item["last_at"], now), rank=1),
        Column("SAMPLE", lambda item: item["sample_id"], rank=3),
        Column("ERROR", error_of, flex=True),
    ]
