"""`holdfast task output`, `holdfast logs` and `holdfast task checkpoints`: what runs have written.

Promises: the bytes of a stream come whole and in order; what was not kept of a long stream is named on
stderr. With --follow a new attempt of the task is followed too. Never: lets output control the terminal.
"""

from __future__ import annotations

import base64
import sys
from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from cyclopts import Parameter

from holdfast.app import TaskQueue
from holdfast.cli.api import calls_of, v1
from holdfast.cli.commands.fleet.job import output as job_output
from holdfast.cli.commands.fleet.job_ref import job_ref
from holdfast.cli.commands.fleet.which import names_job
from holdfast.cli.commands.task import whole_task
from holdfast.cli.follow import news_of
from holdfast.cli.ids import find_task
from holdfast.cli.lists import page_of, print_list
from holdfast.cli.options import COMMON, Common, Flag, Output, Query, TaskId
from holdfast.cli.output.printer import Printer
from holdfast.cli.output.table import Column
from holdfast.cli.output.times import clock
from holdfast.cli.output_reader import OutputReader, Page
from holdfast.cli.problem import Usage
from holdfast.cli.session import remark, with_queue
from holdfast.client.calls import Calls
from holdfast.core.codec import dumps
from holdfast.core.output import StreamName
from holdfast.core.task import ENDED, Task

Stream = Annotated[StreamName, Parameter(help="The stream of the run.")]
Follow = Annotated[Flag, Parameter(name=("--follow", "-f"), help="Wait for more until it ends.")]


def output(
    task_id: TaskId,
    /,
    *,
    stream: Stream = StreamName.STDOUT,
    fence: Annotated[
        int | None, Parameter(help="The run, by its fence; default: the latest.")
    ] = None,
    start: Annotated[int, Parameter(help="The first byte.")] = 0,
    follow: Follow = False,
    common: Common = COMMON,
) -> None:
    """Print the output of a task."""
    query = {"stream": stream.value, "fence": fence}
    _print_stream(common, _finder(task_id), query, start=start, follow=follow)


Find = Callable[[TaskQueue, Calls], Awaitable[tuple[str, str]]]
"""The id of the task whose output is read, and the path of the output."""


def _finder(task_id: str, *, or_job: bool = False) -> Find:
    async def find(queue: TaskQueue, _: Calls) -> tuple[str, str]:
        task = await find_task(queue.parts.tasks, task_id, or_job=or_job)
        return task.id, v1("tasks", task.id, "output")

    return find


def _print_stream(
    common: Common,
    find: Find,
    query: dict[str, Any],
    *,
    start: int,
    follow: bool,
    to_stderr: bool = False,
) -> None:
    printer = Printer(common)
    kept: list[Page] = []

    async def work(queue: TaskQueue) -> str:
        calls = await calls_of(queue)
        position = await queue.parts.feed.position()
        found, path = await find(queue, calls)
        task = await find_task(queue.parts.tasks, found)
        reader = OutputReader(calls, path, query, start)
        async for page in reader.pages():
            _take(printer, page, kept, follow=follow, to_stderr=to_stderr)
        if query.get("fence") is None and printer.is_table:
            _name_attempts(task)
        if follow and task.status not in ENDED:
            async for _ in news_of(queue.parts, task.id, position):
                async for page in reader.pages():
                    _take(printer, page, kept, follow=True)
        return task.id

    found = with_queue(common, work)
    if printer.output is Output.NAME:
        print(found)
    elif printer.output is Output.JSON and not follow:
        printer.document(_joined(found, kept))


def _name_attempts(task: Task) -> None:
    """Says to the person at the terminal that this is the output of one attempt of several."""
    if task.attempts > 1 and sys.stderr.isatty():
        remark(
            f"attempt {task.attempts} has written this; an earlier one: holdfast task output {task.id} "
            f"--fence N, with the fence of its start in holdfast task history {task.id}"
        )


def logs(
    id: Annotated[
        str, Parameter(help="A task's id, a prefix of it, its name at nodes, or @last; or a job.")
    ],
    /,
    *,
    host: Annotated[
        str | None, Parameter(help="A host of a job; without it, the outputs of all hosts.")
    ] = None,
    stream: Annotated[
        StreamName | None,
        Parameter(help="Only this stream; without it stdout, of a job also stderr."),
    ] = None,
    follow: Follow = False,
    common: Common = COMMON,
) -> None:
    """Print what the latest run of a task, or of a host of a job, has written."""
    if host is None and not names_job(common, id):
        query = {"stream": (stream or StreamName.STDOUT).value, "fence": None}
        _print_stream(common, _finder(id, or_job=True), query, start=0, follow=follow)
    elif host is None:
        if follow:
            raise Usage("--follow needs --host: holdfast watch shows all hosts of a job")
        job_output(id, stream=stream, common=common)
    else:

        async def find(_: TaskQueue, calls: Calls) -> tuple[str, str]:
            ref = await job_ref(calls, id)
            found = (await calls.call("GET", v1("jobs", ref, "executions", host))).body
            return found["id"], v1("jobs", ref, "executions", found["id"], "logs")

        query = {"stream": (stream or StreamName.STDOUT).value}
        _print_stream(common, find, query, start=0, follow=follow)
        if stream is None and Printer(common).is_table:
            query = {"stream": StreamName.STDERR.value}
            _print_stream(common, find, query, start=0, follow=False, to_stderr=True)


def _take(
    printer: Printer, page: Page, kept: list[Page], *, follow: bool, to_stderr: bool = False
) -> None:
    """Prints a page, or keeps it for a document."""
    if printer.output is Output.JSON and not follow:
        kept.append(page)
    elif printer.is_table:
        for gap in page["gaps"]:
            remark(f"{gap['size']} bytes from {gap['start']} on were not kept")
        printer.content(_bytes(page), to_stderr=to_stderr)
    elif printer.output is not Output.NAME:
        printer.object(page)


def _bytes(page: Page) -> bytes:
    if "text" in page:
        return str(page["text"]).encode()
    return base64.b64decode(page["data_base64"])


def _joined(task_id: str, pages: list[Page]) -> Page:
    """One document of all pages."""
    data = b"".join(map(_bytes, pages))
    whole: Page = {"task_id": task_id}
    if pages:
        whole |= {**pages[-1], "start": pages[0]["start"]}
    whole["gaps"] = [gap for page in pages for gap in page["gaps"]]
    whole.pop("data_base64", None)
    try:
        return whole | {"text": data.decode()}
    except UnicodeDecodeError:
        whole.pop("text", None)
        return whole | {"data_base64": base64.b64encode(data).decode()}


def checkpoints(task_id: TaskId, /, *, query: Query = None, common: Common = COMMON) -> None:
    """List the named checkpoints of a task, the oldest first."""
    path = v1("tasks", whole_task(common, task_id), "checkpoints")
    columns = [
        Column("ID", lambda item: item["id"]),
        Column("TYPE", lambda item: item["type"], flex=True),
        Column("FENCE", lambda item: item["fence"]),
        Column("AT", lambda item: clock(item["created_at"])),
        Column("NOTE", lambda item: item["note"], flex=True),
        Column("DATA", lambda item: dumps(item["data"]), flex=True),
    ]
    print_list(common, page_of(common, path, q=query), columns, "no checkpoints")
