"""`holdfast decision list|show|answer`: questions of tasks to people."""

from __future__ import annotations

from typing import Annotated, Any

from cyclopts import Parameter

from holdfast.cli import values
from holdfast.cli.api import full_id, v1, whole_id
from holdfast.cli.commands.each import Changed, change_each
from holdfast.cli.lists import default_state, page_of, print_list, with_terms
from holdfast.cli.options import (
    COMMON,
    VERSIONED,
    After,
    Common,
    Limit,
    Query,
    VersionedChange,
)
from holdfast.cli.output.printer import Printer
from holdfast.cli.output.table import Column
from holdfast.cli.output.times import relative
from holdfast.cli.session import with_parts
from holdfast.cli.use_cases import UseCases
from holdfast.client.calls import Calls
from holdfast.core.check import check_choice
from holdfast.core.codec import dumps
from holdfast.core.decision import Decision, DecisionState
from holdfast.queue import views

Id = Annotated[str, Parameter(help="The decision's id, a prefix that matches one, or @last.")]


def list_(
    *,
    state: Annotated[
        str | None,
        Parameter(help="open (the default), decided, expired, cancelled, or all of them: all."),
    ] = None,
    assignee: Annotated[
        str | None, Parameter(help="Only those that this name may answer: user:ann, role:approver.")
    ] = None,
    query: Query = None,
    limit: Limit = 50,
    after: After = None,
    common: Common = COMMON,
) -> None:
    """List decisions, the latest first."""
    shown = default_state(state, query, DecisionState.OPEN.value)
    if shown is not None:
        check_choice("state", shown, DecisionState)
    q = with_terms(query, state=shown, assignee=assignee)
    page = page_of(common, v1("decisions"), q=q, limit=limit, after=after)
    print_list(
        common,
        page,
        _columns,
        "no open decisions" if shown == DecisionState.OPEN else "no decisions",
    )


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
    given: VersionedChange = VERSIONED,
    common: Common = COMMON,
) -> int:
    """Answer a decision; its task goes on. `-` for the id answers those of stdin alike."""

    async def change(calls: Calls, text: str) -> Changed:
        whole = await full_id(calls, "decisions", text)
        options = (await calls.call("GET", v1("decisions", whole))).body["options"]
        body = {"choice": choice if options else values.parsed(choice), **given.body()}
        item = (await calls.call("POST", v1("decisions", whole), body)).body
        return Changed(whole, item, f"answered with {dumps(item['choice'])}")

    version = given.expect_version
    return change_each(
        common, [id], change, "decision", expect_version=version, dry_run=given.dry_run, one=True
    )


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
        Column("STATE", lambda item: item["state"], rank=1),
        Column("TASK", lambda item: item["task_id"], rank=2),
        Column("QUESTION", lambda item: item["question"], flex=True),
        Column(
            "DEADLINE",
            lambda item: "" if item["deadline_at"] is None else relative(item["deadline_at"], now),
        ),
    ]
