"""Operations on dead letters: read by the time of death, replay, discard."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec
from msgspec import UNSET

from holdfast.core.access import ALL_PROJECTS
from holdfast.core.check import check_whole
from holdfast.core.rights import Operation
from holdfast.core.task import Task
from holdfast.errors import IllegalTransition
from holdfast.gateway.operations.call import Answer, Call
from holdfast.gateway.operations.tasks import BODIES_MAX, readable, task_answer, task_by
from holdfast.queue import views
from holdfast.queue.by import By
from holdfast.queue.dead_letters import DeadFilter

O: Final = Operation  # noqa: E741


class ReplayBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How a dead letter starts again."""

    payload: Any = UNSET
    patch: dict[str, Any] | None = None
    """A merge patch of its payload."""
    delay_seconds: float = 0.0
    reason: str = ""
    expected_version: int | None = None


class DiscardBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    reason: str = ""
    expected_version: int | None = None


class FilterBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Dead letters that match: a field that is null matches any."""

    type: str | None = None
    queue: str | None = None
    fingerprint: str | None = None
    limit: int | None = None
    dry_run: bool = False
    reason: str = ""


class ReplayAllBody(FilterBody, frozen=True, forbid_unknown_fields=True, kw_only=True):
    rate: float | None = None
    """At most this many starts per second."""
    patch: dict[str, Any] | None = None
    """A merge patch of their payloads."""


async def latest(
    call: Call,
    *,
    type: str | None = None,
    queue: str | None = None,
    fingerprint: str | None = None,
    behind: str | None = None,
    limit: int = 50,
) -> Answer:
    """Dead letters with their bodies, the latest death first. `behind`: the last id of the page before."""
    call.authorise_any(O.TASKS_READ)
    check_whole("limit", limit, least=1, most=BODIES_MAX)
    last = None if behind is None else await readable(call, O.TASKS_READ, behind)
    which = DeadFilter(type, queue, fingerprint)
    letters = call.services.parts.dead_letters
    rows: list[Task] = []
    while len(rows) < limit:
        page = await letters.page_after(which, last, limit=limit)
        rows += [task for task in page if call.projects is None or task.project in call.projects]
        if len(page) < limit:
            break
        last = page[-1]
    now = call.services.now()
    return Answer({"items": [views.task(task, now) for task in rows[:limit]], "next": None})


async def replay(call: Call, task_id: str, body: ReplayBody) -> Answer:
    """Gives one dead letter new attempts."""
    return await _change(
        call,
        O.DEAD_REPLAY,
        task_id,
        body,
        lambda task, by: call.services.parts.dead_letters.replay(
            task.id, by, payload=body.payload, patch=body.patch, delay=body.delay_seconds
        ),
    )


async def discard(call: Call, task_id: str, body: DiscardBody) -> Answer:
    """Ends one dead letter for good."""
    letters = call.services.parts.dead_letters
    return await _change(
        call, O.DEAD_DISCARD, task_id, body, lambda task, by: letters.discard(task.id, by)
    )


async def replay_all(call: Call, body: ReplayAllBody) -> Answer:
    """Gives all dead letters that match new attempts."""
    letters = call.services.parts.dead_letters
    return await _change_all(
        call,
        O.DEAD_REPLAY,
        body,
        lambda by: letters.replay_all(
            _filter(body),
            by,
            rate=body.rate,
            limit=body.limit,
            patch=body.patch,
            dry_run=body.dry_run,
        ),
    )


async def discard_all(call: Call, body: FilterBody) -> Answer:
    """Ends all dead letters that match for good."""
    letters = call.services.parts.dead_letters
    return await _change_all(
        call,
        O.DEAD_DISCARD,
        body,
        lambda by: letters.discard_all(_filter(body), by, limit=body.limit, dry_run=body.dry_run),
    )


async def _change(
    call: Call,
    operation: Operation,
    task_id: str,
    body: ReplayBody | DiscardBody,
    act: Callable[[Task, By], Awaitable[Task]],
) -> Answer:
    task = await readable(call, operation, task_id)
    seen = await call.services.parts.tasks.details(task.id)
    by = task_by(
        call, operation, task, body.reason, expected_version=body.expected_version, details=seen
    )
    try:
        return task_answer(call, await act(task, by), seen)
    except IllegalTransition:
        await call.check_answered(operation)  # a repeat finds what the first request has ended
        raise


async def _change_all(
    call: Call, operation: Operation, body: FilterBody, act: Callable[[By], Awaitable[int]]
) -> Answer:
    """The change of many. It is one of the store as a whole: a principal of some projects names the tasks
    with `q` (`POST /operations`)."""
    actor = call.authorise_store(operation).actor
    call.authorise_store(O.OPERATIONS_RUN)
    by = call.by(operation, project=ALL_PROJECTS, subject="", actor=actor, reason=body.reason)
    repeat = None if body.dry_run else await call.begin_repeatable(operation)
    answer = Answer({"count": await act(by), "dry_run": body.dry_run})
    await call.end_repeatable(repeat, answer)
    call.services.wake()
    return answer


def _filter(body: FilterBody) -> DeadFilter:
    return DeadFilter(body.type, body.queue, body.fingerprint)
