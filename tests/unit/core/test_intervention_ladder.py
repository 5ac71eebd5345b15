"""The ladder of interventions under any order of steps, and the rules of decisions."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace

from holdfast.core import command as c, decision as decisions, intervention as rules
from holdfast.core.choice_schema import check_schema, misfit
from holdfast.core.decide import decide
from holdfast.core.decision import Choice, Decision, DecisionState
from holdfast.core.intervention import (
    PENDING,
    STEPS,
    AckOutcome,
    Intervention,
    InterventionState,
    InterventionType,
    NewIntervention,
)
from holdfast.core.task import Status, Task
from holdfast.core.transition import Transition
from holdfast.errors import AlreadyDecided, InvalidInput
from tests.unit.core.test_decide import NOW, task_in

S = InterventionState
STEP = st.sampled_from(["deliver", "done", "refuse", "unknown", "due", "claim"])
HISTORY = st.lists(st.tuples(STEP, st.sampled_from([0.0, 1.0, 10.0, 4_000.0])), max_size=12)


def issued(lease_seconds: float) -> tuple[Intervention, Task]:
    task = replace(task_in(Status.RUNNING), node="n", lease_until=NOW + lease_seconds)
    command = c.Unlock("ann", "r")
    moved = decide(task, c.Instruction(task.id, command), NOW)
    assert isinstance(moved, Transition)
    request = NewIntervention(
        id="ivn_1",
        task_id=task.id,
        type=InterventionType.RELEASE_LOCK,
        command=command,
        actor="ann",
        reason="r",
    )
    return rules.issued(request, task, moved, NOW), moved.after


def claimed(task: Task, now: float) -> Task:
    return replace(
        task, status=Status.RUNNING, fence=task.fence + 1, started_at=now, lease_until=now + 9.0
    )


@given(history=HISTORY, lease_seconds=st.sampled_from([5.0, 9_000.0]))
def test_every_history_follows_the_ladder(
    history: list[tuple[str, float]], lease_seconds: float
) -> None:
    row, task = issued(lease_seconds)
    assert (row.state, row.target_node) == (S.ISSUED, "n")
    now, applied = NOW, 0
    for step, seconds in history:
        now += seconds
        before = row
        match step:
            case "deliver":
                row = rules.due(row, task, now)
                row = rules.delivered(row, now) if row.is_pending else row
            case "done":
                row = rules.acknowledged(row, AckOutcome.DONE, "", now)
            case "refuse":
                row = rules.acknowledged(row, AckOutcome.REFUSED, "no", now)
            case "unknown":
                row = rules.acknowledged(row, AckOutcome.UNKNOWN_TASK, "", now)
            case "due":
                row = rules.due(row, task, now)
            case "claim":
                task = claimed(task, now)
        if row.state is not before.state:
            assert row.state in STEPS[before.state]
            applied += row.state is S.APPLIED
        else:
            assert row == before
        assert (row.ended_at is None) == row.is_pending
    assert applied <= 1
    # It ends by itself, at the latest when the lease or the time of the command has ended.
    assert not rules.due(row, task, rules.due_at(row) + 0.001).is_pending
    if row.state in PENDING and task.fence > (row.target_fence or 0) + 1:
        assert rules.due(row, task, now).detail == rules.FENCED


def test_each_state_has_its_event() -> None:
    assert set(rules.EVENTS) == set(S)
    row, _ = issued(5.0)
    assert rules.events_between(None, row) == ("intervention.issued",)
    done = rules.acknowledged(row, AckOutcome.DONE, "", NOW)
    assert rules.events_between(row, done) == ("intervention.applied",)
    assert rules.events_between(None, done) == ("intervention.issued", "intervention.applied")
    assert rules.events_between(done, done) == ()


# -- decisions ---------------------------------------------------------------------------------------


def opened(**fields: Any) -> Decision:
    question = decisions.make_question("Go?", key="k", options=["yes", "no"], **fields)
    return decisions.asked(question, task_in(Status.RUNNING), decision_id="dec_1", now=NOW)


ANSWERS = st.lists(
    st.tuples(
        st.sampled_from(["yes", "no"]),
        st.sampled_from(["ann", "bob"]),
        st.sampled_from([0.0, 5.0, 60.0]),
    ),
    max_size=6,
)


@given(answers=ANSWERS, default=st.sampled_from([None, "no"]))
def test_the_first_answer_counts_and_stays(
    answers: list[tuple[str, str, float]], default: str | None
) -> None:
    fields = {} if default is None else {"default": default}
    decision = opened(deadline=60.0, **fields)
    now, first = NOW, None
    for choice, actor, seconds in answers:
        now += seconds
        given_choice = Choice(choice_json=decisions.choice_json(choice), actor=actor)
        try:
            after = decisions.decided(decision, given_choice, now)
        except AlreadyDecided:
            assert first != (choice, actor)
            assert first is not None or now >= NOW + 60.0
            continue
        if first is None:
            assert now < NOW + 60.0
            first = (choice, actor)
            decision = after
        assert after == decision
        assert (after.choice, after.by) == first
    late = decisions.as_of(decision, NOW + 60.0)
    assert late.state is not DecisionState.OPEN
    if first is None:
        assert (late.choice, late.by) == (default, "deadline")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner),
    max_leaves=6,
)


@given(value=JSON, other=JSON)
def test_a_constant_fits_only_itself(value: Any, other: Any) -> None:
    schema = check_schema({"const": value})
    assert misfit(schema, value) is None
    if other != value:
        assert misfit(schema, other) is not None


@pytest.mark.parametrize(
    ("schema", "fits", "wrong"),
    [
        ({"type": "integer", "minimum": 1, "maximum": 5}, 3, 7),
        ({"type": "integer"}, 3, True),
        ({"type": ["string", "null"], "maxLength": 2}, None, "abc"),
        ({"enum": [1, "a"]}, "a", True),
        ({"type": "array", "items": {"type": "string"}, "minItems": 1}, ["a"], [1]),
        (
            {"properties": {"n": {"type": "number"}}, "required": ["n"]},
            {"n": 1, "m": 2},
            {"m": 2},
        ),
        ({"properties": {"n": {}}, "additionalProperties": False}, {"n": 1}, {"m": 1}),
    ],
)
def test_schemas(schema: dict[str, Any], fits: Any, wrong: Any) -> None:
    check_schema(schema)
    assert misfit(schema, fits) is None
    assert misfit(schema, wrong) is not None


@pytest.mark.parametrize(
    "schema",
    [
        *([], {"pattern": "x"}, {"type": "date"}, {"minimum": "1"}, {"enum": 3}),
        *({"properties": []}, {"required": [1]}, {"items": {"$ref": "#"}}, {"type": 3}),
        {"additionalProperties": {}},
    ],
)
def test_what_a_schema_may_not_say(schema: Any) -> None:
    with pytest.raises(InvalidInput):
        check_schema(schema)
