"""`holdfast task abort|cancel|pause|resume|retry|reassign|release|force`: interventions.

Promises: each is recorded and audited, and follows the runner that loses the task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Final, NamedTuple

from cyclopts import Parameter

from holdfast.cli import values
from holdfast.cli.commands.changes import Chosen, change_each
from holdfast.cli.operations import Operations
from holdfast.cli.options import (
    COMMON,
    Common,
    DryRun as DryRunFlag,
    ExpectVersion,
    Query,
    Reason,
    TaskIds,
    Yes,
)
from holdfast.cli.session import by
from holdfast.core.intervention import NO_REASON, DryRun, InterventionType as Type
from holdfast.core.intervention_args import intervention_request
from holdfast.core.task import Task

Why = Annotated[str, Parameter(name=("--reason", "-m"), help="Why; recorded and audited.")]


@Parameter(name="*")
@dataclass(frozen=True)
class Options:
    """Options of every intervention."""

    query: Query = None
    yes: Yes = False
    dry_run: DryRunFlag = False
    expect_version: ExpectVersion = None


OPTIONS: Final = Options()


def abort(*ids: TaskIds, reason: Why, options: Options = OPTIONS, common: Common = COMMON) -> int:
    """End tasks that have not ended; a running handler is cancelled."""
    return _intervene(common, ids, Wanted(Type.ABORT, reason, "aborted"), options)


def cancel(
    *ids: TaskIds, reason: Reason = "", options: Options = OPTIONS, common: Common = COMMON
) -> int:
    """Abort tasks in any state; a running handler is cancelled."""
    return _intervene(common, ids, Wanted(Type.ABORT, reason, "aborted"), options)


def pause(
    *ids: TaskIds, reason: Reason = "", options: Options = OPTIONS, common: Common = COMMON
) -> int:
    """Stop running tasks until they are resumed; this does not use up an attempt."""
    return _intervene(common, ids, Wanted(Type.PAUSE, reason, "paused"), options)


def resume(
    *ids: TaskIds, reason: Reason = "", options: Options = OPTIONS, common: Common = COMMON
) -> int:
    """Put paused tasks back into the queue."""
    return _intervene(common, ids, Wanted(Type.RESUME, reason, "queued again"), options)


def retry(
    *ids: TaskIds,
    reason: Why,
    delay: Annotated[float | None, Parameter(help="Seconds until it is due.")] = None,
    options: Options = OPTIONS,
    common: Common = COMMON,
) -> int:
    """Make waiting or stuck tasks due now, and give dead letters new attempts."""
    args = {} if delay is None else {"delay_seconds": delay}
    return _intervene(common, ids, Wanted(Type.RETRY, reason, "due", args), options)


def reassign(
    *ids: TaskIds,
    to: Annotated[str, Parameter(help="The node that gets the tasks.")],
    reason: Why,
    fallback: Annotated[
        float, Parameter(help="Seconds after which any node may claim them; 0 for never.")
    ] = 60.0,
    options: Options = OPTIONS,
    common: Common = COMMON,
) -> int:
    """Reserve tasks for a node; a runner loses them."""
    args = {"to_node": to, "fallback_seconds": fallback}
    wanted = Wanted(Type.REASSIGN, reason, f"reserved for {to}", args)
    return _intervene(common, ids, wanted, options)


def release(*ids: TaskIds, reason: Why, options: Options = OPTIONS, common: Common = COMMON) -> int:
    """Take tasks from their runners and put them back into the queue; no attempt is used up."""
    return _intervene(common, ids, Wanted(Type.RELEASE_LOCK, reason, "queued again"), options)


def force(
    *ids: TaskIds,
    status: Annotated[str, Parameter(help="queued, paused, failed or completed.")],
    reason: Why,
    result: Annotated[str | None, Parameter(help="The result as JSON, for completed.")] = None,
    evidence: Annotated[
        str | None, Parameter(help="The position of an event task.late whose result counts.")
    ] = None,
    options: Options = OPTIONS,
    common: Common = COMMON,
) -> int:
    """Set the status of tasks, along legal steps; the reason needs at least 10 characters."""
    args: dict[str, Any] = {"status": status}
    if result is not None:
        args["result"] = values.parse_json(result, "--result")
    if evidence is not None:
        args["evidence"] = evidence
    wanted = Wanted(Type.FORCE_STATUS, reason, f"forced to {status}", args)
    return _intervene(common, ids, wanted, options)


class Wanted(NamedTuple):
    """An intervention, and what the command prints when it is made."""

    type: Type
    reason: str
    done: str
    args: dict[str, Any] | None = None


def _intervene(common: Common, ids: tuple[str, ...], wanted: Wanted, options: Options) -> int:
    reason = wanted.reason or NO_REASON
    request = intervention_request(wanted.type, reason, wanted.args)
    who = by(reason, options.expect_version)

    async def change(operations: Operations, task: Task) -> Task | DryRun:
        if options.dry_run:
            return await operations.interventions.foresee(task.id, request, who)
        return (await operations.interventions.issue(task.id, request, who)).task

    return change_each(
        common,
        ids,
        change,
        wanted.done,
        expect_version=options.expect_version,
        dry_run=options.dry_run,
        chosen=Chosen(options.query, options.yes),
    )
