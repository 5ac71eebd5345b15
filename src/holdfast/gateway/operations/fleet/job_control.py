"""Orders of operators to jobs: pause, resume, abort, promote, change, retry."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec
from msgspec import UNSET, UnsetType

from holdfast.core.fleet.rollout.policy import Amount, BudgetName
from holdfast.core.rights import Operation
from holdfast.fleet.jobs.control import BAD_ENDS, AbortMode, Ordered, RolloutChange
from holdfast.fleet.views import jobs as views
from holdfast.gateway.operations.call import Answer, Call
from holdfast.gateway.operations.fleet.jobs import job_answer, new_job_by, readable, token_owners
from holdfast.queue.by import By

O: Final = Operation  # noqa: E741


class OrderBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why."""

    reason: str = ""
    expected_version: int | None = None


class AbortBody(OrderBody, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What becomes of hosts that run: they finish (`drain`), or are ended (`kill`)."""

    mode: AbortMode = AbortMode.DRAIN


class JobChange(OrderBody, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What changes of a rollout. What is absent stays; null removes a limit."""

    max_in_flight: Amount | UnsetType = UNSET
    rate_per_second: float | UnsetType | None = UNSET
    budget: dict[BudgetName, Amount | None] = {}


class RetryBody(OrderBody, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which ends are tried again: names with commas between them, or a list."""

    only: str | list[str] = ",".join(BAD_ENDS)
    external_id: str | None = None


async def pause(call: Call, job_id: str, body: OrderBody, *, project: str | None = None) -> Answer:
    """No further host starts. Hosts that run go on."""
    control = call.services.fleet.job_control
    return await _order(call, job_id, body, project, control.pause)


async def resume(call: Call, job_id: str, body: OrderBody, *, project: str | None = None) -> Answer:
    control = call.services.fleet.job_control
    return await _order(call, job_id, body, project, control.resume)


async def promote(
    call: Call, job_id: str, body: OrderBody, *, project: str | None = None
) -> Answer:
    """Opens the wave that waits for a person."""
    control = call.services.fleet.job_control
    return await _order(call, job_id, body, project, control.promote)


async def abort(call: Call, job_id: str, body: AbortBody, *, project: str | None = None) -> Answer:
    """Ends the job: what has not started ends now."""

    async def order(job: str, by: By) -> Ordered:
        return await call.services.fleet.job_control.abort(job, by, mode=body.mode)

    return await _order(call, job_id, body, project, order, detail={"mode": body.mode})


async def change(call: Call, job_id: str, body: JobChange, *, project: str | None = None) -> Answer:
    """Changes the rollout of a job while it runs: never beyond what was approved."""
    wanted = RolloutChange(
        max_in_flight=body.max_in_flight,
        rate_per_second=body.rate_per_second,
        budget=body.budget,
    )

    async def order(job: str, by: By) -> Ordered:
        control = call.services.fleet.job_control
        return await control.set(job, wanted, by, excluded_voters=await token_owners(call))

    detail = msgspec.to_builtins(wanted)
    return await _order(call, job_id, body, project, order, detail=detail)


async def retry(call: Call, job_id: str, body: RetryBody, *, project: str | None = None) -> Answer:
    """A new job for the hosts that ended so."""
    await call.check_answered(O.JOBS_CREATE)
    job = await readable(call, O.JOBS_CREATE, job_id, project)
    only = body.only.split(",") if isinstance(body.only, str) else body.only
    by = new_job_by(call, job.project, body.reason)
    by = msgspec.structs.replace(by, expected_version=call.version(body.expected_version))
    with call.preconditions():
        made = await call.services.fleet.job_control.retry(
            job.id,
            by,
            only=[name.strip() for name in only],
            external_id=body.external_id,
            excluded_voters=await token_owners(call),
        )
    return job_answer(made)


async def _order(
    call: Call,
    job_id: str,
    body: OrderBody,
    project: str | None,
    order: Callable[[str, By], Awaitable[Ordered]],
    *,
    detail: Any = None,
) -> Answer:
    await call.check_answered(O.JOBS_CONTROL)
    job = await readable(call, O.JOBS_CONTROL, job_id, project)
    actor = call.authorise(O.JOBS_CONTROL, project=job.project).actor
    by = call.by(
        O.JOBS_CONTROL,
        project=job.project,
        subject=job.id,
        actor=actor,
        reason=body.reason,
        expected_version=body.expected_version,
        answer=_answer,
        detail=detail,
        has_changed=lambda ordered: not ordered.is_repeat,
    )
    with call.preconditions():
        return _answer(await order(job.id, by))


def _answer(ordered: Ordered) -> Answer:
    return Answer(views.ordered(ordered), version=ordered.job.version)
