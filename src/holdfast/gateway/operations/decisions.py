"""Operations on decisions: list, read, answer."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import UNSET

from holdfast.core import codec, four_eyes
from holdfast.core.check import check_choice, check_page
from holdfast.core.decision import Decision, DecisionState, may_answer
from holdfast.core.errors import Forbidden, SelfApproval
from holdfast.core.rights import Operation
from holdfast.core.wire import make_cursor, parse_id_cursor
from holdfast.gateway.operations.call import Answer, Call, missing, stored
from holdfast.gateway.operations.terms import read_terms
from holdfast.queue import views
from holdfast.queue.by import By
from holdfast.store.decisions import Act
from holdfast.sync.access.recorded import Recorded

O: Final = Operation  # noqa: E741
STATE: Final = "state"
ASSIGNEE: Final = "assignee"
USAGE: Final = "state:STATE and assignee:NAME or assignee:me"
ME: Final = "me"


class ChoiceBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An answer to a decision."""

    choice: Any
    data: Any = UNSET
    reason: str = ""
    expected_version: int | None = None


async def find(call: Call, *, q: str = "", after: str | None = None, limit: int = 100) -> Answer:
    """Decisions that match `q`: `state:open`, `assignee:me`, `assignee:user:ann`. A node reads those that its
    runs asked."""
    call.authorise_any(O.DECISIONS_READ, owner_node=call.principal.node)
    terms = read_terms(q, (STATE, ASSIGNEE), USAGE)
    name = f"decisions {q}"
    state = terms.get(STATE)
    rows = await call.services.parts.decisions.list(
        state=None if state is None else check_choice(STATE, state, DecisionState),
        assignees=_assignees(call, terms.get(ASSIGNEE)),
        projects=None if call.projects is None else sorted(call.projects),
        node=call.principal.node,
        after=None if after is None else parse_id_cursor(after, of=name),
        limit=check_page(limit),
    )
    now = call.services.now()
    items = [views.decision(row, now) for row in rows]
    more = make_cursor((rows[-1].id,), of=name) if len(rows) == limit else None
    return Answer({"items": items, "next": more})


async def get(call: Call, decision_id: str) -> Answer:
    """One decision, with the checkpoint of its task."""
    decision = await _readable(call, O.DECISIONS_READ, decision_id)
    point = await call.services.parts.decisions.asked_point(decision_id)
    body = views.whole_decision(decision, call.services.now(), point)
    return Answer(body, version=decision.version)


async def answer(call: Call, decision_id: str, body: ChoiceBody) -> Answer:
    """Answers a decision: its task goes on."""
    decision = await _readable(call, O.DECISIONS_DECIDE, decision_id)
    actor = call.authorise(
        O.DECISIONS_DECIDE, project=decision.project, noun="decision", id=decision_id
    ).actor
    roles = sorted(role.value for role in call.principal.roles)
    if not may_answer(decision, call.principal.name, roles):
        names = ", ".join(decision.assignees)
        raise Forbidden(f"decision {decision_id} is for {names}: you are {call.principal.name}")
    await _check_four_eyes(call, decision)
    with call.preconditions():
        after = await call.services.parts.decisions.answer(
            decision_id,
            body.choice,
            _by(call, actor, body),
            data=body.data,
            act=Act(O.DECISIONS_DECIDE.value, call.request_id),
        )
    return _answer(call, after)


async def _check_four_eyes(call: Call, decision: Decision) -> None:
    task = await call.services.parts.tasks.look_up(decision.task_id)
    if task is not None and four_eyes.excludes(task.metadata, call.principal.name):
        raise SelfApproval(
            f"you submitted task {task.id}, which asks for another person's decision"
        )


def _by(call: Call, actor: str, body: ChoiceBody) -> By:
    """Who answers, with the answer for a request with a key. The decision writes its own audit row."""
    version = call.version(body.expected_version)
    repeatable = call.repeatable(O.DECISIONS_DECIDE)
    if repeatable is None:
        return By(actor, body.reason, version)

    def kept(outcome: object) -> codec.Json:
        assert isinstance(outcome, Decision)
        return stored(_answer(call, outcome))

    beside = Recorded(lambda _outcome, _now: (), repeatable=repeatable, answer=kept)
    return By(actor, body.reason, version, beside)


def _answer(call: Call, decision: Decision) -> Answer:
    return Answer(views.decision(decision, call.services.now()), version=decision.version)


async def _readable(call: Call, operation: Operation, decision_id: str) -> Decision:
    own = call.principal.node
    call.authorise_any(operation, owner_node=own)
    store = call.services.store
    decision = await store.decisions.get(decision_id)
    if decision is None or own not in (None, decision.node):
        raise missing("decision", decision_id)
    call.authorise(
        operation,
        project=decision.project,
        owner_node=decision.node,
        noun="decision",
        id=decision_id,
    )
    return decision


def _assignees(call: Call, name: str | None) -> list[str] | None:
    if name is None:
        return None
    if name != ME:
        return [name]
    return [call.principal.name, *(f"role:{role.value}" for role in call.principal.roles)]
