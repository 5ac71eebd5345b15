"""Jobs as users name them: an id, a prefix of an id, an external id, or the newest.

Promises: a prefix that fits several jobs is refused, with some of them named. Never: guesses.
"""

from __future__ import annotations

from typing import Any, Final

from holdfast.app import TaskQueue
from holdfast.cli.api import LISTED_MAX, calls_of, v1
from holdfast.cli.ids import LAST, PREFIX_MIN, WHOLE_ID
from holdfast.cli.options import Common
from holdfast.cli.problem import Usage
from holdfast.cli.session import with_queue
from holdfast.client.calls import Calls
from holdfast.core.fleet.model import JOB_PREFIX
from holdfast.errors import NotFound

NAMED_MAX: Final = 3
Job = dict[str, Any]


async def job_ref(calls: Calls, text: str, project: str | None = None) -> str:
    """What the API knows the job by."""
    if not text:
        raise Usage("the job is empty: check that the variable of your script is set")
    if text == LAST:
        newest = await _list(calls, project, 1)
        if not newest:
            raise NotFound("there is no job yet, so @last means none")
        return str(newest[0]["id"])
    if not text.startswith(JOB_PREFIX) or WHOLE_ID.fullmatch(text):
        return text
    if len(text) < PREFIX_MIN:
        raise Usage(f"'{text}' is too short for a job: type {PREFIX_MIN} characters of its id")
    fitting = [job["id"] for job in await _list(calls, project, LISTED_MAX)]
    fitting = [id for id in fitting if id.startswith(text)]
    if len(fitting) > 1:
        names = ", ".join(fitting[:NAMED_MAX])
        raise Usage(f"several jobs start with '{text}': {names}; type more of the id")
    return str(fitting[0]) if fitting else text


async def _list(calls: Calls, project: str | None, limit: int) -> list[Job]:
    query = {"project": project, "limit": limit}
    found: list[Job] = (await calls.call("GET", v1("jobs"), query=query)).body["items"]
    return found


async def read_job(calls: Calls, ref: str, project: str | None = None, **query: object) -> Job:
    """The job with its counts."""
    given = {"project": project, **query}
    job: Job = (await calls.call("GET", v1("jobs", ref), query=given)).body
    return job


def of_job(
    common: Common,
    text: str,
    method: str,
    *path: str,
    body: dict[str, Any] | None = None,
    project: str | None = None,
    query: dict[str, object] | None = None,
    dry_run: bool = False,
) -> Any:
    """The answer to a call about a job."""

    async def work(queue: TaskQueue) -> Any:
        calls = await calls_of(queue, dry_run=dry_run)
        ref = await job_ref(calls, text, project)
        given = {"project": project, **(query or {})}
        return (await calls.call(method, v1("jobs", ref, *path), body, query=given)).body

    return with_queue(common, work)
