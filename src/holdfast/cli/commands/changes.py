"""One change to many tasks, with an answer for each.

Promises: every id gets an answer. The exit code is 0 when all changes succeeded, 3 when some did, and
that of the first error when none did.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from holdfast.cli.commands.task import whole
from holdfast.cli.ids import find_task, given_ids
from holdfast.cli.options import Common, Output
from holdfast.cli.output.printer import Printer, mute
from holdfast.cli.problem import PARTIAL, Usage, describe, show
from holdfast.cli.session import with_parts
from holdfast.core.task import Task
from holdfast.queue.parts import Parts
from holdfast.queue.problem import Problem

Change = Callable[[Parts, Task], Awaitable[Task]]


def change_each(common: Common, ids: Iterable[str], change: Change, done: str) -> int:
    """Changes the tasks one by one. Returns the exit code."""
    wanted = given_ids(ids)
    if not wanted:
        raise Usage("no task is given: pass ids, or - to read ids from stdin")

    async def work(parts: Parts) -> tuple[list[dict[str, Any]], list[Problem]]:
        items, problems = [], []
        for text in wanted:
            try:
                task = await find_task(parts.tasks, text, for_change=True)
                items.append(await whole(parts, await change(parts, task)))
            except Exception as error:  # an error of one id must not stop the others
                problems.append(describe(error))
        return items, problems

    items, problems = with_parts(common, work)
    try:
        _answer(common, items, done)
    except BrokenPipeError:
        mute()  # the exit code still says whether all succeeded
    for problem in problems:
        show(problem, as_json=common.output in (Output.JSON, Output.JSONL))
    if not problems:
        return 0
    return PARTIAL if items else problems[0].exit


def _answer(common: Common, items: list[dict[str, Any]], done: str) -> None:
    printer = Printer(common)
    if printer.is_table:
        for item in items:
            print(f"{item['id']}  {done}")
        sys.stdout.flush()
    elif items:
        from holdfast.cli.output.table import Column

        printer.rows(items, [Column("ID", lambda item: item["id"])], empty="")
