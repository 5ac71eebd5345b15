"""`holdfast task copy`: a new task like an existing one."""

from __future__ import annotations

from typing import Annotated, Any

from cyclopts import Parameter

from holdfast.app import TaskQueue
from holdfast.cli import values
from holdfast.cli.api import calls_of, v1
from holdfast.cli.ids import find_task
from holdfast.cli.options import COMMON, Common, Reason, TaskId
from holdfast.cli.output.printer import Printer
from holdfast.cli.session import with_queue


def copy(
    task_id: TaskId,
    /,
    *pairs: Annotated[str, Parameter(help="Another payload, as key=value.")],
    json: Annotated[str | None, Parameter(help="Another payload as JSON; - reads stdin.")] = None,
    reason: Reason = "",
    common: Common = COMMON,
) -> None:
    """Enqueue a task like this one, e.g. to run a completed task again. Prints the id of the new task."""
    body: dict[str, Any] = {"reason": reason}
    if pairs or json is not None:
        body["payload"] = values.payload(pairs, json)

    async def work(queue: TaskQueue) -> Any:
        task = await find_task(queue.parts.tasks, task_id, for_change=True)
        path = v1("tasks", task.id, "copy")
        return (await (await calls_of(queue)).call("POST", path, body)).body

    item = with_queue(common, work)
    Printer(common).one(item, [(item["id"], "enqueued")], name=item["id"])
