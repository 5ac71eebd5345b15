"""Decisions: asked, answered, expired and cancelled, each in one transaction with the task."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast.core import command as c, decision as rules
from holdfast.core.decision import Choice, Decision, DecisionState, Question
from holdfast.core.task import Status, Task
from holdfast.core.transition import Refusal
from holdfast.engine.due_changes import DueChanges
from holdfast.errors import (
    AlreadyDecided,
    IdempotencyConflict,
    InvalidInput,
    NotFound,
    VersionConflict,
)
from holdfast.store.audit import AuditStore
from holdfast.store.decisions import Asked
from holdfast.store.store import Store
from holdfast.testing import VirtualClock
from tests.conformance.tasks.helpers import (
    check_counters,
    claim_one,
    code,
    complete,
    get,
    kinds,
    order,
    put,
    runner_says,
)

QUESTION = rules.make_question("Deploy?", key="deploy", options=["yes", "no"])


def with_deadline(default: str | None = None) -> Question:
    given = {} if default is None else {"default": default}
    return rules.make_question(
        "Deploy?", key="deploy", options=["yes", "no"], deadline=60.0, **given
    )


def choosing(choice: object, actor: str = "user:ann", **fields: Any) -> Choice:
    return Choice(choice_json=rules.choice_json(choice), actor=actor, **fields)


async def asking(store: Store, question: Question = QUESTION) -> tuple[Task, Decision]:
    """A claimed task that has asked."""
    await put(store, "a")
    task = await claim_one(store)
    answer = await store.decisions.ask(task.id, task.fence, question)
    assert isinstance(answer, Asked), answer
    return task, answer.decision


async def test_asking_pauses_the_task_with_its_checkpoint(store: Store) -> None:
    task, decision = await asking(store, rules.make_question("Go?", key="k", data={"hosts": 14}))
    after = await get(store, "a")
    assert (after.status, after.gate) == (Status.PAUSED, f"!decision:{decision.id}")
    assert (after.fence, after.attempts, after.held_by) == (task.fence + 1, 0, None)
    point = await store.decisions.checkpoint(decision.id)
    assert point is not None
    assert (point.type, point.note, point.data) == ("decision", "Go?", {"hosts": 14})
    assert (await kinds(store, "a"))[-3:] == [
        *("task.paused", "checkpoint.hitl_required", "checkpoint.created"),
    ]
    events = (await store.feed.history("a"))[-3:]
    assert [event.version for event in events] == [after.version] * 3
    assert code(await runner_says(store, task, c.Complete("1"))) == "lease-lost"
    await check_counters(store)


async def test_the_event_of_a_question_has_what_an_answer_needs(store: Store) -> None:
    await asking(
        store, rules.make_question("How many?", key="k", schema={"type": "integer"}, default=3)
    )
    event = next(e for e in await store.feed.history("a") if e.kind == "checkpoint.hitl_required")
    assert (event.schema, event.default) == ({"type": "integer"}, 3)


async def test_a_long_schema_is_left_out_of_the_event(store: Store) -> None:
    schema = {"enum": ["x" * rules.EVENT_CHARS_MAX]}
    await asking(store, rules.make_question("Which?", key="k", schema=schema))
    event = next(e for e in await store.feed.history("a") if e.kind == "checkpoint.hitl_required")
    assert event.schema_omitted
    assert not {"schema", "default", "default_omitted"} & set(event.data)


async def test_an_answer_resumes_the_task_and_is_kept(store: Store) -> None:
    task, decision = await asking(store)
    after = await store.decisions.decide(decision.id, choosing("yes", reason="all green"))
    assert (after.state, after.choice, after.by) == (DecisionState.DECIDED, "yes", "user:ann")
    assert (await get(store, "a")).status is Status.QUEUED
    again = await claim_one(store)
    assert (again.attempts, again.fence) == (1, task.fence + 2)
    kept = await store.decisions.ask("a", again.fence, QUESTION)
    assert isinstance(kept, Decision)
    assert (kept.choice, kept.reason) == ("yes", "all green")
    assert code(await complete(store, again)) == "moved"
    row = (await AuditStore(store).before(2**53, 1))[0]
    assert (row.operation, row.actor, row.subject) == ("decisions.decide", "user:ann", decision.id)
    await check_counters(store)


async def test_the_same_answer_again_is_the_same_and_another_is_refused(store: Store) -> None:
    _, decision = await asking(store)
    first = await store.decisions.decide(decision.id, choosing("yes"))
    events = await kinds(store, "a")
    assert await store.decisions.decide(decision.id, choosing("yes")) == first
    assert await kinds(store, "a") == events
    for other in (choosing("no"), choosing("yes", "user:bob")):
        with pytest.raises(AlreadyDecided) as refused:
            await store.decisions.decide(decision.id, other)
        assert refused.value.decision == first


async def test_of_two_answers_at_once_one_counts(store: Store) -> None:
    _, decision = await asking(store)
    answers = await asyncio.gather(
        *(store.decisions.decide(decision.id, choosing("yes", f"user:{n}")) for n in range(5)),
        return_exceptions=True,
    )
    won = [answer for answer in answers if isinstance(answer, Decision)]
    assert len(won) == 1
    assert all(isinstance(answer, AlreadyDecided) for answer in answers if answer is not won[0])
    assert (await kinds(store, "a")).count("decision.decided") == 1


async def test_a_choice_that_does_not_fit_changes_nothing(store: Store) -> None:
    _, decision = await asking(store)
    with pytest.raises(InvalidInput, match="use one of yes, no"):
        await store.decisions.decide(decision.id, choosing("maybe"))
    with pytest.raises(VersionConflict):
        await store.decisions.decide(decision.id, choosing("yes", expected_version=7))
    with pytest.raises(NotFound):
        await store.decisions.decide("dec_none", choosing("yes"))
    assert (await get(store, "a")).status is Status.PAUSED


@pytest.mark.parametrize("default", ["no", None])
async def test_the_deadline_decides_or_expires(
    store: Store, clock: VirtualClock, default: str | None
) -> None:
    _, decision = await asking(store, with_deadline(default))
    due = DueChanges(store, lambda: None)
    assert 59.0 < (await due.round() or 0.0) <= 60.0
    clock.set(clock.now() + 60.0)
    # A reader, and an answer that comes too late, see the deadline before the sweeper has run.
    state = DecisionState.EXPIRED if default is None else DecisionState.DECIDED
    shown = await store.decisions.get(decision.id)
    assert shown is not None
    assert (shown.state, shown.choice) == (state, default)
    assert await store.decisions.find(state=DecisionState.OPEN, limit=10) == []
    with pytest.raises(AlreadyDecided):
        await store.decisions.decide(decision.id, choosing("yes"))
    assert await due.round() == 0.0
    assert await due.round() is None
    stored = await store.decisions.get(decision.id)
    assert stored is not None
    assert (stored.state, stored.choice, stored.by) == (state, default, "deadline")
    assert (await get(store, "a")).status is Status.QUEUED
    assert f"decision.{state}" in await kinds(store, "a")
    again = await claim_one(store)
    kept = await store.decisions.ask("a", again.fence, with_deadline(default))
    assert isinstance(kept, Decision)
    assert kept.state is state


@pytest.mark.parametrize(
    "command",
    [
        c.Abort("ann", "no more"),
        c.Force("ann", Status.FAILED, "out of order"),
        c.Force("ann", Status.QUEUED, "out of order"),
        c.Force("ann", Status.COMPLETED, "done by hand", '"by hand"'),
    ],
)
async def test_a_task_that_does_not_wait_any_more_cancels_its_decision(
    store: Store, command: c.OperatorCommand
) -> None:
    _, decision = await asking(store)
    assert code(await order(store, "a", command)) == "moved"
    after = await store.decisions.get(decision.id)
    assert after is not None
    assert after.state is DecisionState.CANCELLED
    assert "decision.cancelled" in await kinds(store, "a")
    with pytest.raises(AlreadyDecided):
        await store.decisions.decide(decision.id, choosing("yes"))


async def test_a_cancelled_question_is_asked_again(store: Store) -> None:
    _, decision = await asking(store)
    await order(store, "a", c.Force("ann", Status.QUEUED, "out of order"))
    again = await claim_one(store)
    answer = await store.decisions.ask("a", again.fence, QUESTION)
    assert isinstance(answer, Asked)
    assert (answer.decision.id, answer.decision.state) == (decision.id, DecisionState.OPEN)
    assert (await store.decisions.decide(decision.id, choosing("no"))).choice == "no"


async def test_a_held_task_resumes_when_it_is_decided_and_let_go(store: Store) -> None:
    _, decision = await asking(store)
    assert code(await order(store, "a", c.Resume("ann"))) == "decision-needed"
    assert code(await order(store, "a", c.Pause("ann", "wait"))) == "moved"
    await store.decisions.decide(decision.id, choosing("yes"))
    assert (await get(store, "a")).status is Status.PAUSED
    assert code(await order(store, "a", c.Resume("ann"))) == "moved"
    assert (await claim_one(store)).id == "a"


async def test_a_repeated_question_of_the_same_run_is_recognised(store: Store) -> None:
    """The commit of the first one was not acknowledged."""
    task, decision = await asking(store)
    again = await store.decisions.ask("a", task.fence, QUESTION)
    assert again == Asked(decision)
    assert (await kinds(store, "a")).count("checkpoint.hitl_required") == 1
    other = await store.decisions.ask("a", task.fence, rules.make_question("And?", key="other"))
    assert isinstance(other, Refusal)
    assert other.code == "lease-lost"


async def test_another_question_under_a_used_key_is_refused(store: Store) -> None:
    _, decision = await asking(store)
    await store.decisions.decide(decision.id, choosing("yes"))
    again = await claim_one(store)
    other = rules.make_question("Destroy?", key="deploy", options=["yes", "no"])
    with pytest.raises(IdempotencyConflict):
        await store.decisions.ask("a", again.fence, other)
    assert (await get(store, "a")).status is Status.RUNNING


async def test_lists_filter_by_state_project_and_assignee(store: Store) -> None:
    asked: list[str] = []
    for n, assignees in enumerate([(), ("user:ann",), ("role:approver",)]):
        await put(store, f"t{n}", project="p1" if n == 1 else "default")
        task = await claim_one(store)
        question = rules.make_question("Go?", key="k", assignees=assignees)
        answer = await store.decisions.ask(task.id, task.fence, question)
        assert isinstance(answer, Asked)
        asked.append(answer.decision.id)

    async def found(**where: Any) -> list[str]:
        rows = await store.decisions.find(limit=10, **where)
        return [row.id for row in rows]

    assert await found() == asked[::-1]
    assert await found(after=asked[2]) == [asked[1], asked[0]]
    assert await found(projects=["p1"]) == [asked[1]]
    assert await found(assignees=["user:ann"]) == [asked[1], asked[0]]
    assert await found(assignees=["user:bob", "role:approver"]) == [asked[2], asked[0]]
    await store.decisions.decide(asked[0], choosing("x"))
    assert await found(state=DecisionState.OPEN) == [asked[2], asked[1]]
    assert await found(state=DecisionState.DECIDED) == [asked[0]]
    assert [row.id for row in await store.decisions.of_tasks(["t1"])] == [asked[1]]


async def test_pruning_a_task_removes_its_decisions(store: Store, clock: VirtualClock) -> None:
    _, decision = await asking(store)
    await order(store, "a", c.Abort("ann"))
    later = clock.now() + 100.0
    clock.set(later)
    await store.prune(before=later, dead_before=later, feed_before=0.0)
    assert await store.decisions.get(decision.id) is None
    assert await store.decisions.checkpoint(decision.id) is None
