"""Task ids as users type them: complete, a prefix, a name at nodes, the newest, or many on stdin.

Promises: a prefix that matches several tasks is refused, with some of them named. A change needs the id
or a prefix of some length, so that an empty variable of a script changes nothing. Never: guesses.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator
from typing import Final

from holdfast.cli.problem import Usage
from holdfast.cli.use_cases import Tasks
from holdfast.cli.values import STDIN
from holdfast.core.task import Task
from holdfast.errors import NotFound

LAST = "@last"
NAMED_MAX = 3
PREFIX_MIN = 6
"""The shortest prefix that a change accepts."""
WHOLE_ID: Final = re.compile(r"[a-z]+_[0-9a-f]{32}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""A whole id of an object, or of a task."""


async def find_task(
    tasks: Tasks, text: str, *, for_change: bool = False, or_job: bool = False
) -> Task:
    """The one task that the text identifies. `or_job`: the command takes jobs too, and has found none."""
    if not text:
        raise Usage("an id is empty: check that the variable of your script is set")
    if text == LAST:
        newest = await tasks.find(limit=1)
        if not newest:
            raise NotFound("there is no task yet, so @last means none")
        return newest[0]
    task = await tasks.look_up(text)
    if task is not None:
        return task
    if for_change and len(text) < PREFIX_MIN:
        raise Usage(
            f"'{text}' is too short to change a task: type {PREFIX_MIN} characters of its id"
        )
    fitting = await tasks.find(prefix=text, limit=NAMED_MAX + 1)
    if not fitting:
        raise NotFound(
            f"no {'task or job' if or_job else 'task'} has the id or the name '{text}', or an id that starts "
            "with it: it may have been pruned"
        )
    if len(fitting) > 1:
        names = ", ".join(task.id for task in fitting[:NAMED_MAX])
        more = ", ..." if len(fitting) > NAMED_MAX else ""
        raise Usage(f"several tasks start with '{text}': {names}{more}; type more of the id")
    return fitting[0]


def given_ids(texts: Iterable[str]) -> list[str]:
    """The ids of the command line, with those of stdin in place of '-', without repeats."""
    found: dict[str, None] = {}
    for text in texts:
        found.update(dict.fromkeys(_from_stdin() if text == STDIN else [text]))
    return list(found)


def _from_stdin() -> Iterator[str]:
    """One id per line: the first word, or the `id` of a JSON object."""
    for line in sys.stdin:
        text = line.strip()
        if text.startswith("{"):
            yield _id_of(text)
        elif text:
            yield text.split()[0]


def _id_of(text: str) -> str:
    try:
        found = json.loads(text)["id"]
    except (ValueError, KeyError, RecursionError):
        found = None
    if not isinstance(found, str):
        raise Usage(f"a line of stdin has no id: {text[:80]}")
    return found
