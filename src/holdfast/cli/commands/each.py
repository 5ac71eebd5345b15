"""One change to many objects, with an answer for each.

Promises: every name gets an answer. The exit code is 0 when all changes succeeded, 3 when some did, and that
of the first error when none did. A dry run changes nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, NamedTuple

from holdfast.app import TaskQueue
from holdfast.cli.api import calls_of
from holdfast.cli.ids import given_ids
from holdfast.cli.options import Common, Output
from holdfast.cli.output.printer import Printer, mute
from holdfast.cli.output.table import Column, Item
from holdfast.cli.problem import PARTIAL, Usage, describe, show
from holdfast.cli.session import with_queue
from holdfast.client.calls import Calls
from holdfast.queue.problem import Problem


class Changed(NamedTuple):
    """The answer for one object."""

    name: str
    view: Item
    said: str


Change = Callable[[Calls, str], Awaitable[Changed]]


def change_each(
    common: Common,
    texts: Iterable[str],
    change: Change,
    noun: str,
    *,
    expect_version: int | None = None,
    dry_run: bool = False,
    one: bool = False,
) -> int:
    """Changes the objects one by one. Returns the exit code. `dry_run`: the changes are undone. `one`: the
    answer for one object that was typed is an object, not a list."""
    texts = list(texts)
    names = given_ids(texts)
    if not names:
        raise Usage(f"no {noun} is given: pass names or ids, or - to read them from stdin")
    if "" in names:
        raise Usage("a name is empty: check that the variable of your script is set")
    if expect_version is not None and len(names) > 1:
        raise Usage(f"--expect-version is for one {noun}: give one")

    async def work(queue: TaskQueue) -> tuple[list[Changed], list[Problem]]:
        return await each(await calls_of(queue, dry_run=dry_run), names, change)

    done, problems = with_queue(common, work)
    is_one = one and texts == names and len(names) == 1
    return answer(common, done, problems, dry_run=dry_run, one=is_one)


async def each(
    calls: Calls, names: Iterable[str], change: Change
) -> tuple[list[Changed], list[Problem]]:
    """What became of each name."""
    done: list[Changed] = []
    problems: list[Problem] = []
    for name in names:
        try:
            done.append(await change(calls, name))
        except Exception as error:  # an error of one name must not stop the others
            problems.append(describe(error))
    return done, problems


def answer(
    common: Common,
    done: list[Changed],
    problems: list[Problem],
    *,
    dry_run: bool = False,
    one: bool = False,
) -> int:
    """Prints the answers. Returns the exit code."""
    if dry_run:
        done = [_foreseen(each) for each in done]
    try:
        _print(common, done, one=one)
    except BrokenPipeError:
        mute()  # the exit code still says whether all succeeded
    for problem in problems:
        show(problem, as_json=common.output in (Output.JSON, Output.JSONL))
    if not problems:
        return 0
    return PARTIAL if done else problems[0].exit


def _foreseen(change: Changed) -> Changed:
    return Changed(change.name, {"dry_run": True, **change.view}, f"would be {change.said}")


def _print(common: Common, done: list[Changed], *, one: bool) -> None:
    printer = Printer(common)
    if one and done:
        printer.one(done[0].view, [(done[0].name, done[0].said)], name=done[0].name)
    elif printer.is_table:
        printer.lines([(each.name, each.said) for each in done])
    elif done:
        names = {id(each.view): each.name for each in done}
        rows: list[dict[str, Any]] = [each.view for each in done]
        printer.rows(rows, [Column("NAME", lambda item: names[id(item)])], empty="")
