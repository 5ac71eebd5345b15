"""`holdfast task-group enqueue|show|wait|cancel`: tasks that were enqueued together."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from holdfast.app import TaskQueue
from holdfast.cli import values
from holdfast.cli.api import answer_of, calls_of, v1, with_operations
from holdfast.cli.operations import Operations
from holdfast.cli.options import CHANGE, COMMON, Change, Common, DryRun
from holdfast.cli.output.printer import Printer
from holdfast.cli.problem import Usage
from holdfast.cli.session import advice, with_queue
from holdfast.core import codec
from holdfast.core.group import GroupProgress
from holdfast.core.task import Status
from holdfast.errors import TaskFailed
from holdfast.queue import views

Id = Annotated[str, Parameter(help="The id of the task group.")]


def enqueue(
    file: Annotated[
        str, Parameter(help="A file of tasks; - reads stdin, as without it.", show_default=False)
    ] = values.STDIN,
    /,
    *,
    id: Annotated[
        str | None, Parameter(help="The id of the group; the command is then repeatable.")
    ] = None,
    dry_run: DryRun = False,
    common: Common = COMMON,
) -> None:
    """Enqueue tasks as a group, all or none. Each line of the file is a JSON object with a type and a
    payload, as POST /tasks takes it. Prints the id of the group."""
    tasks = _tasks(_read(file), "stdin" if file == values.STDIN else file)

    async def work(operations: Operations) -> dict[str, Any]:
        group = await operations.producer.enqueue_group(tasks, id, None)
        if dry_run:
            return {"id": id, "size": len(group)}
        return views.task_group(await group.progress())

    item = with_operations(common, work, dry_run=dry_run)
    printer = Printer(common, dry_run=dry_run)
    if printer.is_table and not dry_run:
        print(item["id"])
    else:
        printer.one(item, [("tasks", str(item["size"]))], name=item["id"] or "")


def show(id: Id, /, *, common: Common = COMMON) -> None:
    """Show how far a task group is."""
    _print(common, answer_of(common, "GET", v1("task-groups", id)))


def wait(
    id: Id,
    /,
    *,
    timeout: Annotated[str | None, Parameter(help="How long to wait.")] = None,
    common: Common = COMMON,
) -> None:
    """Wait until all tasks of a group have ended. Fails if one of them has failed or was aborted."""
    patience = None if timeout is None else values.seconds(timeout, "--timeout")

    async def work(queue: TaskQueue) -> GroupProgress:
        with advice(lambda: f"its tasks go on: holdfast task-group show {id}"):
            return await queue.parts.groups.wait(id, patience)

    progress = with_queue(common, work)
    _print(common, views.task_group(progress))
    lost = progress.size - progress.pruned - progress.counts.get(Status.COMPLETED, 0)
    if lost:
        raise TaskFailed(
            f"{lost} of {progress.size} tasks of group {id} have no result: holdfast task list -q "
            f"'group:{id} status:failed,aborted'"
        )


def cancel(id: Id, /, *, given: Change = CHANGE, common: Common = COMMON) -> None:
    """Abort the tasks of a group that have not ended."""

    async def work(queue: TaskQueue) -> dict[str, Any]:
        calls = await calls_of(queue)
        body = {"reason": given.reason, "dry_run": given.dry_run}
        answer: dict[str, Any] = (
            await calls.call("POST", v1("task-groups", id, "cancel"), body)
        ).body
        return answer

    item = with_queue(common, work)
    verb = "would be aborted" if given.dry_run else "aborted"
    Printer(common, dry_run=given.dry_run).one(item, [(verb, str(item["count"]))], name=id)


def _read(file: str) -> str:
    if file == values.STDIN:
        return sys.stdin.read()
    try:
        return Path(file).read_text("utf-8")
    except (OSError, ValueError) as error:
        raise Usage(f"{file} cannot be read: {error}") from None


def _tasks(text: str, source: str) -> list[dict[str, Any]]:
    tasks = []
    for number, line in enumerate(text.split("\n"), start=1):  # A text may have other line breaks.
        if not line.strip():
            continue
        try:
            task = codec.loads(line)
        except ValueError as error:
            raise Usage(f"line {number} of {source} is not JSON: {error}") from None
        if not isinstance(task, dict):
            raise Usage(f"line {number} of {source} is not a JSON object with a type and a payload")
        tasks.append(task)
    if not tasks:
        raise Usage(
            f"{source} has no tasks: give a JSON object with a type and a payload on each line"
        )
    return tasks


def _print(common: Common, item: dict[str, Any]) -> None:
    counts = ", ".join(f"{n} {status}" for status, n in item["counts"].items()) or "none"
    lines = [
        (item["id"], "ended" if item["is_ended"] else f"{item['ended']} of {item['size']} ended"),
        ("tasks", counts),
        ("created", item["created_at"]),
    ]
    if item["pruned"]:
        lines.append(("pruned", str(item["pruned"])))
    Printer(common).one(item, lines, name=item["id"])
