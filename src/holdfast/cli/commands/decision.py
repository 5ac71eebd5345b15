"""`holdfast decision list|show|answer`: questions of tasks to people."""

from __future__ import annotations

from typing import Annotated, Any

from cyclopts import Parameter

from holdfast.cli import values
from holdfast.cli.api import whole_id, with_operations
from holdfast.cli.operations import Operations
from holdfast.cli.options import COMMON, Common, ExpectVersion, Limit, Reason
from holdfast.cli.output.printer import Printer
from holdfast.cli.output.table import Column
from holdfast.cli.output.times import relative
from holdfast.cli.session import by, with_parts
from holdfast.cli.use_cases import UseCases
from holdfast.core.codec import dumps
from holdfast.core.decision import Decision, DecisionState
from holdfast.queue import views

Id = Annotated[str, Parameter(help="The decision's id, or a prefix that matches one.")]


def list_(
    *,
    state: Annotated[
        str, Parameter(help="open, decided, expired, cancelled, or all of them: all.")
    ] = "open",
    assignee: Annotated[
        str | None, Parameter(help="Only those that this name may answer: user:ann, role:approver.")
    ] = None,
    limit: Limit = 50,
    common: Common = COMMON,
) -> None:
    """List decisions, the latest first."""

    async def work(parts: UseCases) -> tuple[list[Decision], float]:
        decisions = await parts.decisions.list(
            state=None if state == "all" else state,
            assignees=None if assignee is None else [assignee],
            limit=limit,
        )
        return decisions, await parts.sessions.now()

    decisions, now = with_parts(common, work)
    items = [views.decision(decision, now) for decision in decisions]
    Printer(common).rows(items, _columns(now), empty="no decisions")


def show(id: Id, /, *, common: Common = COMMON) -> None:
    """Show a decision with what its task saved."""
    id = whole_id(common, "decisions", id)

    async def work(parts: UseCases) -> tuple[Decision, dict[str, Any]]:
        decision = await parts.decisions.get(id)
        point = await parts.decisions.asked_point(id)
        return decision, views.whole_decision(decision, await parts.sessions.now(), point)

    _print(common, *with_parts(common, work))


def answer(
    id: Id,
    choice: Annotated[str, Parameter(help="One of the options, or JSON that fits the schema.")],
    /,
    *,
    reason: Reason = "",
    expect_version: ExpectVersion = None,
    common: Common = COMMON,
) -> None:
    """Answer a decision; its task goes on."""
    id = whole_id(common, "decisions", id)

    async def work(operations: Operations) -> tuple[Decision, dict[str, Any]]:
        options = (await operations.decisions.get(id)).options
        value = choice if options else values.parsed(choice)
        decision = await operations.decisions.answer(id, value, by(reason, expect_version))
        return decision, views.decision(decision, await operations.sessions.now())

    _print(common, *with_operations(common, work))


def _print(common: Common, decision: Decision, item: dict[str, Any]) -> None:
    lines = [
        (decision.id, decision.state.value),
        ("task", decision.task_id),
        ("question", decision.question),
    ]
    if decision.options:
        lines.append(("options", ", ".join(decision.options)))
    if item["deadline_at"] is not None and decision.state is DecisionState.OPEN:
        default = item.get("default")
        at = "fails the question" if default is None else f"answers {dumps(default)}"
        lines.append(("deadline", f"{item['deadline_at']}, which {at}"))
    if decision.by:
        lines.append(("answer", f"{dumps(decision.choice)} by {decision.by}"))
    if (point := item.get("checkpoint")) is not None:
        lines.append(("data", dumps(point["data"])))
    Printer(common).one(item, lines, name=decision.id)


def _columns(now: float) -> list[Column]:
    return [
        Column("ID", lambda item: item["id"]),
        Column("STATE", lambda item: item["state"]),
        Column("TASK", lambda item: item["task_id"]),
        Column("QUESTION", lambda item: item["question"], flex=True),
        Column(
            "DEADLINE",
            lambda item: "" if item["deadline_at"] is None else relative(item["deadline_at"], now),
        ),
    ]
