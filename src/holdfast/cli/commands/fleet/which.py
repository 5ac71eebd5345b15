"""Whether a text that a command got names a job or a task.

Promises: an id of a job is a job, and what looks like an id of a task is a task. Any other text is a task if
there is one of this name, else a job if one has it as external id.
"""

from __future__ import annotations

import re
from typing import Final

from holdfast.app import TaskQueue
from holdfast.cli.api import calls_of
from holdfast.cli.commands.fleet.job_ref import read_job
from holdfast.cli.ids import LAST
from holdfast.cli.options import Common
from holdfast.cli.session import with_queue
from holdfast.core.errors import AmbiguousId, Forbidden
from holdfast.core.fleet.model import JOB_PREFIX
from holdfast.errors import InvalidInput, NotFound

TASK_ID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f-]*|[0-9a-f]{6,8}")


def names_job(common: Common, text: str) -> bool:
    if text.startswith(JOB_PREFIX):
        return True
    if not text or text == LAST or TASK_ID.fullmatch(text):
        return False
    return with_queue(common, lambda queue: _is_job(queue, text))


async def _is_job(queue: TaskQueue, text: str) -> bool:
    try:
        if await queue.parts.tasks.look_up(text) is not None:
            return False
        if await queue.parts.tasks.find(prefix=text, limit=1):
            return False
        await read_job(await calls_of(queue), text)
    except (NotFound, Forbidden, AmbiguousId, InvalidInput):
        return False
    return True
