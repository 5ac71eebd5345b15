"""One change to many tasks, with an answer for each.

Promises: every id gets an answer. The exit code is 0 when all changes succeeded, 3 when some did, and
that of the first error when none did.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final, NamedTuple

from holdfast.cli.api import LISTED_MAX, v1, with_operations
from holdfast.cli.commands.task import whole
from holdfast.cli.confirm import confirmed
from holdfast.cli.ids import find_task, given_ids
from holdfast.cli.lists import page_of
from holdfast.cli.operations import Operations
from holdfast.cli.options import Common, Output
from holdfast.cli.output.printer import Printer, mute
from holdfast.cli.problem import PARTIAL, Usage, describe, show
from holdfast.core.intervention import DryRun
from holdfast.core.task import FailureKind, Task
from holdfast.queue import views
from holdfast.queue.problem import Problem

Changed = Task | DryRun
"""A task after its change, or what the change would do."""
Change = Callable[[Operations, Task], Awaitable[Changed]]


class Chosen(NamedTuple):
    """The tasks of a query."""

    query: str | None = None
    yes: bool = False
    path: str = "tasks"
    """The list that is searched."""


NOT_CHOSEN: Final = Chosen()


def change_each(
    common: Common,
    ids: Iterable[str],
    change: Change,
    done: str,
    *,
    expect_version: int | None = None,
    dry_run: bool = False,
    chosen: Chosen = NOT_CHOSEN,
) -> int:
    """Changes the tasks one by one. Returns the exit code. `chosen`: the tasks of a query in place of ids."""
    texts = given_ids(ids)
    if chosen.query is not None:
        if texts:
            raise Usage("both ids and -q are given: use one of them")
        texts = _matching(common, chosen)
        question = f"{len(texts)} tasks would be {done}: go on?"
        if not texts or not (dry_run or confirmed(question, yes=chosen.yes, can_count=True)):
            Printer(common).note("no task matches" if not texts else "nothing was changed")
            return 0 if not texts else 1
    if not texts:
        raise Usage("no task is given: pass ids, - to read ids from stdin, or -q")
    if expect_version is not None and len(texts) > 1:
        raise Usage("--expect-version is for one task: give one id")

    async def work(operations: Operations) -> tuple[list[Item], list[Problem]]:
        items: list[Item] = []
        problems = []
        for text in texts:
            try:
                task = await find_task(operations.tasks, text, for_change=True)
                changed = await change(operations, task)
                items.append(await _item(operations, changed, done, dry_run=dry_run))
            except Exception as error:  # an error of one id must not stop the others
                problems.append(describe(error))
        return items, problems

    items, problems = with_operations(common, work, dry_run=dry_run)
    try:
        _answer(common, items)
    except BrokenPipeError:
        mute()  # the exit code still says whether all succeeded
    for problem in problems:
        show(problem, as_json=common.output in (Output.JSON, Output.JSONL))
    if not problems:
        return 0
    return PARTIAL if items else problems[0].exit


async def _item(operations: Operations, changed: Changed, done: str, *, dry_run: bool) -> Item:
    if isinstance(changed, DryRun):
        return _foreseen(changed)
    view = await whole(operations, changed)
    if dry_run:
        return Item(changed.id, {"dry_run": True, **view}, f"would be {done}")
    return Item(changed.id, view, done)


def _matching(common: Common, chosen: Chosen) -> list[str]:
    """The ids of the tasks that match."""
    page = page_of(common, v1(chosen.path), q=chosen.query, limit=LISTED_MAX)
    if page.next is not None:
        raise Usage(
            f"more than {LISTED_MAX} tasks match: narrow the query, or use `holdfast op run`, which changes "
            "many tasks at once"
        )
    # A dead letter that failed with a parent comes back with it, so it is looked at after the others.
    items = sorted(page.items, key=lambda item: item["failure_kind"] == FailureKind.DEPENDENCY)
    return [item["id"] for item in items]


class Item(NamedTuple):
    """The answer for one task."""

    id: str
    view: dict[str, Any]
    said: str


def _answer(common: Common, items: list[Item]) -> None:
    printer = Printer(common)
    if printer.is_table:
        for item in items:
            print(f"{item.id}  {item.said}")
        sys.stdout.flush()
    elif items:
        from holdfast.cli.output.table import Column

        rows = [item.view for item in items]
        printer.rows(rows, [Column("ID", lambda item: item["id"])], empty="")


def _foreseen(dry: DryRun) -> Item:
    loser = f"; {dry.runner} would lose it" if dry.runner else ""
    said = "would stay as it is"
    if dry.effect is not None:
        said = f"would go from {dry.effect.before} to {dry.effect.after}{loser}"
    return Item(dry.task_id, {"id": dry.task_id, "dry_run": True, **views.dry_run(dry)}, said)
