"""`holdfast enqueue`: enqueues a task and, with `--wait`, waits for its result.

Promises: stdout has only the id (or with `--wait` the result), so that scripts can use it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

from cyclopts import Parameter

from holdfast.app import TaskQueue
from holdfast.cli import values
from holdfast.cli.api import operations_of
from holdfast.cli.commands.task import whole
from holdfast.cli.ids import find_task
from holdfast.cli.options import COMMON, Common, DryRun, Flag
from holdfast.cli.output.printer import Printer
from holdfast.cli.problem import Usage
from holdfast.cli.projects import check_projects
from holdfast.cli.session import advice, with_queue
from holdfast.cli.use_cases import Tasks
from holdfast.core.codec import dumps
from holdfast.core.group import GROUP
from holdfast.core.pressure import Pressure
from holdfast.core.task import Status, Task
from holdfast.core.unique import Unique
from holdfast.engine.handle import TaskHandle, no_result
from holdfast.errors import TaskFailed
from holdfast.queue.types import EnqueueOptions

RunAt = Annotated[str | None, Parameter(help="Not before this time: 2026-08-01T10:00+02:00.")]
MaxAttempts = Annotated[int | None, Parameter(help="Attempts before it becomes a dead letter.")]
Parents = Annotated[
    tuple[str, ...],
    Parameter(negative="", help="Start after this task, or group:ID; ID:ignore also if it fails."),
]
Tags = Annotated[
    tuple[str, ...], Parameter(negative="", help="A name by which lists find it: -q tag:NAME.")
]
Metadata = Annotated[
    tuple[str, ...],
    Parameter(
        ("--metadata", "--meta"), negative="", help="A note as key=value: -q meta.KEY:VALUE."
    ),
]
Window = Annotated[
    str | None,
    Parameter(
        help="Only if no task of these arguments waits (started), runs (ended), or is of 1h."
    ),
]
WindowBy = Annotated[
    tuple[str, ...], Parameter(negative="", help="An argument that --unique looks at; else all.")
]


def enqueue(
    type: Annotated[str, Parameter(help="A type that a worker has registered.")],
    /,
    *pairs: Annotated[str, Parameter(help="The payload as key=value; values may be JSON.")],
    json: Annotated[str | None, Parameter(help="The payload as JSON; - reads stdin.")] = None,
    priority: Annotated[str | None, Parameter(help="critical, high, normal or low.")] = None,
    delay: Annotated[str, Parameter(help="Not before: 30s, 5m, 2h.")] = "0",
    run_at: RunAt = None,
    queue: Annotated[str | None, Parameter(help="Another queue than the type's.")] = None,
    project: Annotated[str | None, Parameter(help="Another project than the token's.")] = None,
    max_attempts: MaxAttempts = None,
    key: Annotated[str | None, Parameter(help="The key for limits of keys and for turns.")] = None,
    idempotency_key: Annotated[
        str | None, Parameter(help="Makes the command safe to repeat.")
    ] = None,
    id: Annotated[str | None, Parameter(help="The id of the new task.")] = None,
    depends_on: Parents = (),
    tag: Tags = (),
    metadata: Metadata = (),
    task_timeout: Annotated[str | None, Parameter(help="How long an attempt may take.")] = None,
    progress_timeout: Annotated[
        str | None, Parameter(help="How long a run may go without progress.")
    ] = None,
    unique: Window = None,
    unique_by: WindowBy = (),
    wait: Annotated[Flag, Parameter(help="Wait for the result and print it.")] = False,
    timeout: Annotated[str | None, Parameter(help="How long to wait.")] = None,
    dry_run: DryRun = False,
    common: Common = COMMON,
) -> None:
    """Enqueue a task. Prints its id; with --wait its result."""
    if timeout is not None and not wait:
        raise Usage("--timeout needs --wait; --task-timeout limits an attempt")
    if dry_run and wait:
        raise Usage("--dry-run enqueues nothing that --wait could wait for: leave one of them out")
    patience = None if timeout is None else values.seconds(timeout, "--timeout")
    check_projects(common, [] if project is None else [project])
    body = values.payload(pairs, json)
    request: dict[str, Any] = {"priority": priority, **_start(delay, run_at)}
    request |= {"queue": queue, "project": project, "max_attempts": max_attempts, "key": key}
    request |= {"idempotency_key": idempotency_key} | _unique(unique, unique_by)
    request["tags"] = tag
    request["metadata"] = values.payload(metadata, None) or None
    request |= _timeouts(task_timeout, progress_timeout)
    printer = Printer(common)

    async def work(q: TaskQueue) -> tuple[Task | None, dict[str, Any]]:
        operations = await operations_of(q, dry_run=dry_run)
        parents = await _parents(operations.tasks, depends_on)
        options = EnqueueOptions(depends_on=parents, **request)
        handle = await operations.producer.enqueue(type, body, id, options, None)
        _note(printer, handle)
        if dry_run:
            return None, {"type": type, "payload": body, "status": handle.status.value}
        if wait:
            printer.note(f"task {handle.id}")
            with advice(lambda: f"task {handle.id} goes on: holdfast task show {handle.id}"):
                task = await q.wait_task(handle.id, patience)
        else:
            task = await handle.get()
        return task, await whole(operations, task)

    task, item = with_queue(common, work)
    if task is None:
        _foreseen(common, item)
    else:
        _answer(printer, task, item, wait=wait)


def _start(delay: str, run_at: str | None) -> dict[str, Any]:
    moment = None if run_at is None else values.moment(run_at, "--run-at")
    return {"delay": values.seconds(delay, "--delay"), "run_at": moment}


def _unique(window: str | None, by: tuple[str, ...]) -> dict[str, Unique]:
    if window is None:
        if by:
            raise Usage("--unique-by needs --unique: started, ended or a period such as 1h")
        return {}
    if window in ("started", "ended"):
        return {"unique": Unique(until="started" if window == "started" else "ended", by=by)}
    return {"unique": Unique(period=values.seconds(window, "--unique"), by=by)}


def _timeouts(task: str | None, progress: str | None) -> dict[str, float]:
    """What is left out, the type decides; None would be no timeout at all."""
    found = {}
    if task is not None:
        found["timeout"] = values.seconds(task, "--task-timeout")
    if progress is not None:
        found["progress_timeout"] = values.seconds(progress, "--progress-timeout")
    return found


async def _parents(tasks: Tasks, texts: Iterable[str]) -> dict[str, str]:
    """Parents by id, each with the policy for its failure. `group:ID` stands for the tasks of a group."""
    found = {}
    for text in texts:
        if text.startswith(GROUP):
            name, _, policy = text.removeprefix(GROUP).partition(":")
            found[f"{GROUP}{name}"] = policy or "fail"
            continue
        name, _, policy = text.partition(":")
        found[(await find_task(tasks, name)).id] = policy or "fail"
    return found


def _note(printer: Printer, handle: TaskHandle[Any]) -> None:
    if not handle.created:
        printer.note(f"an earlier request created it; it is {handle.status}")
    if handle.pressure is not Pressure.ACCEPTED:
        printer.note("accepted, but the queue is close to its depth limit")


def _foreseen(common: Common, item: dict[str, Any]) -> None:
    lines = [
        ("type", item["type"]),
        ("payload", dumps(item["payload"])),
        ("status", item["status"]),
    ]
    Printer(common, dry_run=True).one(item, lines, name=item["type"])


def _answer(printer: Printer, task: Task, item: dict[str, Any], *, wait: bool) -> None:
    if not printer.is_table:
        printer.one(item, [], name=task.id)
    elif not wait:
        print(task.id)
    elif task.status is Status.COMPLETED:
        print(dumps(task.result))
    if wait and task.status is not Status.COMPLETED:
        raise TaskFailed(no_result(task), task)
