"""`holdfast task abort|retry|reassign|release|force`: interventions.

Promises: each is recorded and audited, and follows the runner that loses the task."""

from __future__ import annotations

from typing import Annotated, Any

from cyclopts import Parameter

from holdfast.cli import values
from holdfast.cli.commands.changes import change_each
from holdfast.cli.options import COMMON, Common, TaskIds
from holdfast.cli.session import by
from holdfast.core.intervention import InterventionType
from holdfast.core.intervention_args import make_wish
from holdfast.core.task import Task
from holdfast.queue.parts import Parts

Why = Annotated[str, Parameter(help="Why; recorded and audited.")]


def abort(*ids: TaskIds, reason: Why, common: Common = COMMON) -> int:
    """End tasks that have not ended; a running handler is cancelled."""
    return _intervene(common, ids, InterventionType.ABORT, reason=reason, done="aborted")


def retry(
    *ids: TaskIds,
    reason: Why,
    delay: Annotated[float | None, Parameter(help="Seconds until it is due.")] = None,
    common: Common = COMMON,
) -> int:
    """Make waiting or stuck tasks due now, and give dead letters new attempts."""
    args = {} if delay is None else {"delay_seconds": delay}
    return _intervene(common, ids, InterventionType.RETRY, reason=reason, done="due", args=args)


def reassign(
    *ids: TaskIds,
    to: Annotated[str, Parameter(help="The node that gets the tasks.")],
    reason: Why,
    fallback: Annotated[
        float, Parameter(help="Seconds after which any node may claim them; 0 for never.")
    ] = 60.0,
    common: Common = COMMON,
) -> int:
    """Reserve tasks for a node; a runner loses them."""
    args = {"to_node": to, "fallback_seconds": fallback}
    done = f"reserved for {to}"
    return _intervene(common, ids, InterventionType.REASSIGN, reason=reason, done=done, args=args)


def release(*ids: TaskIds, reason: Why, common: Common = COMMON) -> int:
    """Take tasks from their runners and put them back into the queue; no attempt is used up."""
    return _intervene(
        common, ids, InterventionType.RELEASE_LOCK, reason=reason, done="queued again"
    )


def force(
    *ids: TaskIds,
    status: Annotated[str, Parameter(help="queued, paused, failed or completed.")],
    reason: Why,
    result: Annotated[str | None, Parameter(help="The result as JSON, for completed.")] = None,
    evidence: Annotated[
        str | None, Parameter(help="The position of an event task.late whose result counts.")
    ] = None,
    common: Common = COMMON,
) -> int:
    """Set the status of tasks, along legal steps; the reason needs at least 10 characters."""
    args: dict[str, Any] = {"status": status}
    if result is not None:
        args["result"] = values.parsed(result)
    if evidence is not None:
        args["evidence"] = evidence
    done = f"forced to {status}"
    return _intervene(
        common, ids, InterventionType.FORCE_STATUS, reason=reason, done=done, args=args
    )


def _intervene(
    common: Common,
    ids: tuple[str, ...],
    type: InterventionType,
    *,
    reason: str,
    done: str,
    args: dict[str, Any] | None = None,
) -> int:
    wish = make_wish(type, reason, args)

    async def change(parts: Parts, task: Task) -> Task:
        return (await parts.interventions.issue(task.id, wish, by(reason))).task

    return change_each(common, ids, change, done)
