"""Ids as people give them: whole, by prefix, the newest, or many on stdin.

Promises: a prefix that fits several tasks is refused with some of them named; never guesses.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator

from holdfast.app import TaskQueue
from holdfast.cli.problem import Usage
from holdfast.cli.values import STDIN
from holdfast.core.task import Task
from holdfast.errors import NotFound

LAST = "@last"
NAMED_MAX = 3


async def find_task(queue: TaskQueue, text: str) -> Task:
    """The one task that the text means."""
    if text == LAST:
        newest = await queue.find_tasks(limit=1)
        if not newest:
            raise NotFound("there is no task yet, so @last means none")
        return newest[0]
    task = await queue.get_task(text)
    if task is not None:
        return task
    fitting = await queue.find_tasks(prefix=text, limit=NAMED_MAX + 1)
    if not fitting:
        raise NotFound(
            f"no task has the id '{text}', nor one that starts with it: it may be pruned"
        )
    if len(fitting) > 1:
        names = ", ".join(task.id for task in fitting[:NAMED_MAX])
        more = ", ..." if len(fitting) > NAMED_MAX else ""
        raise Usage(f"several tasks start with '{text}': {names}{more}; type more of the id")
    return fitting[0]


def given_ids(texts: Iterable[str]) -> list[str]:
    """The ids of the command line, those of stdin in the place of '-', each once."""
    found: dict[str, None] = {}
    for text in texts:
        found.update(dict.fromkeys(_from_stdin() if text == STDIN else [text]))
    return list(found)


def _from_stdin() -> Iterator[str]:
    """One id a line: the first word, or the `id` of a JSON object."""
    for line in sys.stdin:
        text = line.strip()
        if text.startswith("{"):
            try:
                yield str(json.loads(text)["id"])
            except (ValueError, KeyError):
                raise Usage(f"a line of stdin has no id: {text[:80]}") from None
        elif text:
            yield text.split()[0]
