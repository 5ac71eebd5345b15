"""`holdfast watch` and `holdfast wait`: follow a task or a job until it has ended, or the tasks of a query.

Promises: events come in order, without repeats or gaps, from the moment that the first line shows. The exit
code says how the task ended, and 7 that the time ran out.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Annotated, Any, Final

from cyclopts import Parameter

from holdfast.app import TaskQueue
from holdfast.cli import values
from holdfast.cli.api import calls_of, v1
from holdfast.cli.asking import Prompter
from holdfast.cli.commands.events import print_event
from holdfast.cli.commands.fleet.watch import job_statuses, wait_job, watch_job
from holdfast.cli.commands.fleet.which import names_job
from holdfast.cli.commands.task import fields, whole
from holdfast.cli.follow import Patience, news_of
from holdfast.cli.ids import find_task
from holdfast.cli.keyboard import is_interactive
from holdfast.cli.options import COMMON, Common, Output, Progress
from holdfast.cli.output.printer import Printer
from holdfast.cli.problem import Usage
from holdfast.cli.session import use_cases, with_parts, with_queue
from holdfast.cli.use_cases import UseCases
from holdfast.client.calls import Calls
from holdfast.core.check import check_choice
from holdfast.core.task import ENDED, TERMINAL, Status, Task
from holdfast.engine.handle import no_result
from holdfast.errors import Conflict, TaskFailed, WaitTimeout

FOR: Final = "status="
UNTIL_ENDED: Final = FOR + ",".join(sorted(ENDED))
ANY_ID: Final = "-" * 200
"""No task has it. It is as long as an id can be."""
Timeout = Annotated[str | None, Parameter(help="Give up after this time, e.g. 30s or 5m.")]


def watch(
    task_id: Annotated[
        str | None,
        Parameter(
            help="A task's id, a prefix of it, its name at nodes, or @last; or a job; or give -q."
        ),
    ] = None,
    /,
    *,
    query: Annotated[
        str | None,
        Parameter(
            name=("--query", "-q"),
            help="The tasks that match, as ?q= of the API.",
            allow_leading_hyphen=True,
        ),
    ] = None,
    limit: Annotated[
        int | None, Parameter(name=("--limit", "-n"), help="End after this many events.")
    ] = None,
    timeout: Timeout = None,
    progress: Annotated[
        Progress, Parameter(help="How it is shown; auto: by whether there is a terminal.")
    ] = Progress.AUTO,
    common: Common = COMMON,
) -> int:
    """Print the events of a task until it has ended, or of tasks that match a query, without end; or show a
    job until it has ended. Exit code 1 if the task has failed or was aborted; of a job as it has ended."""
    if (task_id is None) is (query is None):
        raise Usage("give the id of a task, or a query with -q")
    if limit is not None and limit < 1:
        raise Usage(f"--limit is {limit}: give a positive number")
    patience = _patience(timeout)
    printer = Printer(_as_events(common, progress))
    is_quiet = progress is Progress.QUIET
    if task_id is None:
        with_queue(
            common,
            lambda queue: patience.bound(
                _watch_query(queue, None if is_quiet else printer, query or "", limit, patience)
            ),
        )
        return 0
    if names_job(common, task_id):
        return watch_job(common, task_id, progress=progress, patience=patience)
    asks = printer.is_table and not is_quiet and is_interactive()
    task = with_queue(
        common,
        lambda queue: patience.bound(
            _watch_task(queue, None if is_quiet else printer, task_id, limit, patience, asks=asks)
        ),
    )
    if task.status in ENDED and task.status is not Status.COMPLETED:
        raise TaskFailed(no_result(task), task)
    return 0


def _as_events(common: Common, progress: Progress) -> Common:
    """`json` is an object for each event, as `-o jsonl`."""
    return replace(common, output=Output.JSONL) if progress is Progress.JSON else common


async def _watch_task(
    queue: TaskQueue,
    printer: Printer | None,
    text: str,
    limit: int | None,
    patience: Patience,
    *,
    asks: bool,
) -> Task:
    """`printer`: None is silent. `asks`: questions of the task are offered to the person at the terminal."""
    parts = use_cases(queue)
    start = await parts.feed.position()
    task = await find_task(parts.tasks, text, or_job=True)
    if printer is not None:
        printer.note(f"task {task.id} ({task.type}) is {task.status}")
    patience.begin()
    if task.status in ENDED:
        return task
    count = 0
    async with AsyncExitStack() as stack:
        prompter = (
            await stack.enter_async_context(Prompter(await calls_of(queue))) if asks else None
        )
        if prompter is not None:
            await prompter.offer_open(task.id)
        async for event, now in news_of(parts, task.id, start):
            task = now
            if printer is not None:
                print_event(printer, event)
            if prompter is not None:
                await prompter.hear(event.kind, event.data)
            count += 1
            if count == limit:
                break
    return task


async def _watch_query(
    queue: TaskQueue, printer: Printer | None, query: str, limit: int | None, patience: Patience
) -> None:
    """Each event is judged by the task as it is when the event is read."""
    parts, calls = queue.parts, await calls_of(queue)
    start = await parts.feed.position()
    # A query that is not valid is refused now, by itself: the error names a character of it.
    await calls.call("GET", v1("tasks"), query={"q": query, "limit": 1})
    await _matches(calls, query, ANY_ID)
    patience.begin()
    count = 0
    async for event in parts.feed.events(start):
        if event.task_id and await _matches(calls, query, event.task_id):
            if printer is not None:
                print_event(printer, event)
            count += 1
            if count == limit:
                return


async def _matches(calls: Calls, query: str, task_id: str) -> bool:
    words = f'({query}) id:"{task_id}"' if query.strip() else f'id:"{task_id}"'
    page = (await calls.call("GET", v1("tasks"), query={"q": words, "limit": 1})).body
    return bool(page["items"])


def wait(
    task_id: Annotated[
        str,
        Parameter(help="A task's id, a prefix of it, its name at nodes, or @last; or a job."),
    ],
    /,
    *,
    for_: Annotated[
        str | None,
        Parameter(name="--for", help="status=NAME[,NAME]; default: until it has ended."),
    ] = None,
    timeout: Timeout = None,
    common: Common = COMMON,
) -> int:
    """Wait until a task or a job has a status. Exit code 6 if it ended in another one, 7 after --timeout.
    Without --for the exit code of a job says how it ended."""
    patience = _patience(timeout)
    if names_job(common, task_id):
        named = None if for_ is None else job_statuses(_after_for(for_))
        return wait_job(common, task_id, named, patience=patience)
    wanted = _statuses(UNTIL_ENDED if for_ is None else for_)

    async def work(parts: UseCases) -> dict[str, Any]:
        try:
            task = await patience.bound(_wait(parts, task_id, wanted, patience))
        except WaitTimeout:
            task = await find_task(parts.tasks, task_id)
            raise WaitTimeout(
                f"task {task.id} is {task.status} after {patience.seconds:g} s: "
                f"`holdfast task why {task.id}` says what it waits for"
            ) from None
        return await whole(parts, task)

    item = with_parts(common, work)
    Printer(common).one(item, fields(item), name=item["id"])
    return 0


def _patience(timeout: str | None) -> Patience:
    return Patience(None if timeout is None else values.seconds(timeout, "--timeout"))


def _statuses(text: str) -> frozenset[Status]:
    return frozenset(check_choice("status", name, Status) for name in _after_for(text))


def _after_for(text: str) -> tuple[str, ...]:
    """The statuses, at least one."""
    names = values.names(text.removeprefix(FOR)) if text.startswith(FOR) else ()
    if not names:
        raise Usage(f"--for is '{text}': write e.g. --for status=completed or status=paused,queued")
    return tuple(names)


async def _wait(parts: UseCases, text: str, wanted: frozenset[Status], patience: Patience) -> Task:
    start = await parts.feed.position()
    task = await find_task(parts.tasks, text, or_job=True)
    patience.begin()
    if task.status in wanted:
        return task
    if task.status not in ENDED:
        async for _, now in news_of(parts, task.id, start):
            task = now
            if now.status in wanted:
                return now
    names = " or ".join(sorted(status.value for status in wanted))
    hint = "" if task.status in TERMINAL else ": replay it first"
    raise Conflict(f"task {task.id} has ended as {task.status} and does not become {names}{hint}")
