"""`holdfast task copy`: a new task like an existing one."""

from __future__ import annotations

from typing import Annotated, Any

from cyclopts import Parameter

from holdfast.app import TaskQueue
from holdfast.cli import values
from holdfast.cli.api import calls_of, v1
from holdfast.cli.ids import find_task
from holdfast.cli.options import CHANGE, COMMON, Change, Common, TaskId
from holdfast.cli.output.printer import Printer
from holdfast.cli.session import with_queue
from holdfast.core.codec import dumps


def copy(
    task_id: TaskId,
    /,
    *pairs: Annotated[str, Parameter(help="Another payload, as key=value.")],
    json: Annotated[str | None, Parameter(help="Another payload as JSON; - reads stdin.")] = None,
    given: Change = CHANGE,
    common: Common = COMMON,
) -> None:
    """Enqueue a task like this one, e.g. to run a completed task again. Prints the id of the new task."""
    body: dict[str, Any] = {"reason": given.reason}
    if pairs or json is not None:
        body["payload"] = values.payload(pairs, json)

    async def work(queue: TaskQueue) -> Any:
        task = await find_task(queue.parts.tasks, task_id, for_change=True)
        path = v1("tasks", task.id, "copy")
        return (await (await calls_of(queue, dry_run=given.dry_run)).call("POST", path, body)).body

    item = with_queue(common, work)
    printer = Printer(common, dry_run=given.dry_run)
    if given.dry_run:  # the id of the task that is made later is another
        lines = [("type", item["type"]), ("payload", dumps(item["payload"]))]
        printer.one({**item, "id": None}, lines, name=item["type"])
        return
    printer.one(item, [(item["id"], "enqueued")], name=item["id"])
