"""`holdfast dlq list|groups|show`: looking at dead letters, the tasks that rest in failed."""

from __future__ import annotations

from typing import Annotated, Any

from cyclopts import Parameter

from holdfast.app import TaskQueue
from holdfast.cli.commands.task import fields, now_of, whole
from holdfast.cli.ids import find_task
from holdfast.cli.options import COMMON, Common, Limit, TaskId
from holdfast.cli.output import views
from holdfast.cli.output.printer import Printer
from holdfast.cli.output.table import Column
from holdfast.cli.output.times import relative
from holdfast.cli.session import with_queue
from holdfast.core.check import PAGE_MAX, check_page
from holdfast.core.task import Status, Task
from holdfast.core.text import lines
from holdfast.errors import Conflict
from holdfast.queue.dead import DeadGroup
from holdfast.store.reads import DeadFilter

FINGERPRINT_CHARS = 24


def list_(
    *,
    type: Annotated[str | None, Parameter(help="Only those of this type.")] = None,
    queue: Annotated[str | None, Parameter(help="Only those of this queue.")] = None,
    fingerprint: Annotated[str | None, Parameter(help="Only those of this group.")] = None,
    limit: Limit = 50,
    after: Annotated[str | None, Parameter(help="The last id of the page before.")] = None,
    common: Common = COMMON,
) -> None:
    """List dead letters, latest first."""

    async def work(q: TaskQueue) -> tuple[list[Task], float]:
        group = await full_fingerprint(q, fingerprint)
        wanted = {"type": type, "queue": queue, "fingerprint": group}
        return await _page(q, wanted, after, check_page(limit)), await now_of(q)

    tasks, now = with_queue(common, work)
    printer = Printer(common)
    printer.rows([views.task(each) for each in tasks], _columns(now), empty="no dead letters")
    if len(tasks) == limit:
        printer.note(f"more: --after {tasks[-1].id}")


def groups(*, limit: Limit = 50, common: Common = COMMON) -> None:
    """Group dead letters by cause, the largest group first."""

    async def work(q: TaskQueue) -> tuple[list[DeadGroup], float]:
        return await q.get_dead_groups(limit=limit), await now_of(q)

    found, now = with_queue(common, work)
    items = [views.group(each) for each in found]
    Printer(common).rows(items, _group_columns(now), empty="no dead letters")


def show(task_id: TaskId, /, *, common: Common = COMMON) -> None:
    """Show a dead letter with the evidence of its last failure."""

    async def work(q: TaskQueue) -> dict[str, Any]:
        task = await find_task(q, task_id)
        if task.status is not Status.FAILED:
            raise Conflict(
                f"task {task.id} is {task.status}, not a dead letter: see holdfast task show {task.id}"
            )
        return await whole(q, task)

    item = with_queue(common, work)
    printer = Printer(common)
    printer.one(item, fields(item), name=item["id"])
    traceback = item["failure"].get("traceback") if item["failure"] else ""
    if printer.is_table and traceback:
        print()
        print(lines(traceback))


async def full_fingerprint(queue: TaskQueue, text: str | None) -> str | None:
    """A group's fingerprint from a prefix of it; a text that fits no group stays as it is."""
    if text is None or len(text) >= FINGERPRINT_CHARS:
        return text
    fitting = [
        group.fingerprint
        for group in await queue.get_dead_groups(limit=1000)
        if group.fingerprint.startswith(text)
    ]
    return fitting[0] if len(fitting) == 1 else text


async def _page(
    queue: TaskQueue, wanted: dict[str, str | None], after: str | None, limit: int
) -> list[Task]:
    """By the time of death, latest first; those of the same moment by id."""
    backend = await queue.open()
    last = await find_task(queue, after) if after is not None else None
    before = last.finished_at if last is not None else None
    size = limit if last is None else PAGE_MAX
    found: list[Task] = []
    skip = 0
    while len(found) < limit:
        which = DeadFilter(**wanted, before=before)
        rows = await backend.store.reads.find_dead(which, limit=size, skip=skip)
        found += [task for task in rows if last is None or _place(task) < _place(last)]
        skip += len(rows)
        if len(rows) < size:
            break
    return found[:limit]


def _place(task: Task) -> tuple[float, str]:
    return task.finished_at or 0.0, task.id


def _columns(now: float) -> list[Column]:
    return [
        Column("ID", lambda item: item["id"]),
        Column("TYPE", lambda item: item["type"], flex=True),
        Column("FAILURE", lambda item: (item["failure"] or {}).get("kind")),
        Column("ATTEMPTS", lambda item: f"{item['attempts']}/{item['max_attempts']}"),
        Column("DIED", lambda item: relative(item["finished_at"], now)),
        Column("ERROR", lambda item: item["error"], flex=True),
    ]


def _group_columns(now: float) -> list[Column]:
    return [
        Column("FINGERPRINT", lambda item: item["fingerprint"]),
        Column("COUNT", lambda item: item["count"]),
        Column("TYPE", lambda item: item["type"], flex=True),
        Column("FIRST", lambda item: relative(item["first_at"], now)),
        Column("LAST", lambda item: relative(item["last_at"], now)),
        Column("SAMPLE", lambda item: item["sample_id"]),
        Column("ERROR", lambda item: item["error"], flex=True),
    ]
