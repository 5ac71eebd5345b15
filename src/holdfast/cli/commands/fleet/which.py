"""Whether a text that a command got names a job or a task.

Promises: an id of a job is a job, and what looks like an id of a task is a task. Any other text is a task if
there is one of this name, else a job if one has it as external id. `@last` is the newest task, and the newest
job if that task is an execution of a job.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Final

from holdfast.app import TaskQueue
from holdfast.cli.api import calls_of
from holdfast.cli.commands.fleet.job_ref import read_job
from holdfast.cli.ids import LAST
from holdfast.cli.options import Common
from holdfast.cli.session import with_queue
from holdfast.core.errors import AmbiguousId, Forbidden
from holdfast.core.fleet.model import FLEET_TYPE, JOB_PREFIX
from holdfast.errors import InvalidInput, NotFound

TASK_ID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f-]*|[0-9a-f]{6,8}")


def names_job(common: Common, text: str) -> bool:
    if text.startswith(JOB_PREFIX):
        return True
    if not text or TASK_ID.fullmatch(text):
        return False
    is_job = _is_newest if text == LAST else partial(_is_job, text)
    return with_queue(common, is_job)


async def _is_newest(queue: TaskQueue) -> bool:
    newest = await queue.parts.tasks.find(limit=1)
    return bool(newest) and newest[0].type == FLEET_TYPE


async def _is_job(text: str, queue: TaskQueue) -> bool:
    try:
        if await queue.parts.tasks.look_up(text) is not None:
            return False
        if await queue.parts.tasks.find(prefix=text, limit=1):
            return False
        await read_job(await calls_of(queue), text)
    except (NotFound, Forbidden, AmbiguousId, InvalidInput):
        return False
    return True
