"""A patch of the payload in the replay of a dead letter."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given, strategies as st

from holdfast.core import codec, command as c
from holdfast.core.bulk import BulkAction, BulkSpec
from holdfast.core.command import Instruction
from holdfast.core.decide import decide
from holdfast.core.merge_patch import merge_patch
from holdfast.core.submit import PAYLOAD_BYTES_MAX
from holdfast.core.task import Status
from holdfast.core.transition import Refusal, Ruling, Transition
from holdfast.errors import InvalidInput
from tests.unit.core.test_decide import task_in

values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=3),
    lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)
objects = st.dictionaries(st.sampled_from("abc"), values, max_size=3)


def replayed(payload: object, patch: object) -> Ruling:
    task = task_in(Status.FAILED, payload_json=codec.dumps(payload))
    change = c.Replay("ann", reason="fixed", patch_json=codec.dumps(patch))
    return decide(task, Instruction(task.id, change), 100.0)


@example({"a": {"a": False}}, {"a": {"a": 0}})
@given(objects, objects)
def test_a_patch_changes_the_fields_that_it_names(payload: Any, patch: Any) -> None:
    ruling = replayed(payload, patch)
    assert isinstance(ruling, Transition)
    assert (ruling.after.status, ruling.after.attempts) == (Status.QUEUED, 0)
    assert codec.loads(ruling.after.payload_json) == merge_patch(payload, patch)
    [event] = ruling.events
    # Compared as JSON: Python takes 0 and False for equal.
    merged = codec.dumps(merge_patch(payload, patch))
    assert event.data["edited"] == (merged != codec.dumps(payload))


def test_the_event_of_the_replay_has_what_the_patch_replaced() -> None:
    ruling = replayed({"to": "ann", "relay": "a"}, {"relay": "b", "tries": 2})
    assert isinstance(ruling, Transition)
    [event] = ruling.events
    assert (event.kind, event.data["before"], event.data["added"]) == (
        "task.replayed",
        {"relay": "a"},
        ["tries"],
    )


@pytest.mark.parametrize(
    ("payload", "patch", "code"),
    [
        (["a", "list"], {"a": 1}, "invalid-input"),
        ("text", {"a": 1}, "invalid-input"),
        ({}, {"a": "x" * PAYLOAD_BYTES_MAX}, "payload-too-large"),
    ],
)
def test_a_payload_that_cannot_be_patched_leaves_the_dead_letter(
    payload: object, patch: object, code: str
) -> None:
    ruling = replayed(payload, patch)
    assert isinstance(ruling, Refusal)
    assert ruling.code == code


@pytest.mark.parametrize("args", [{"patch": {}}, {"patch": [1]}, {"patch": "x"}, {"patches": {}}])
def test_a_patch_is_an_object_with_a_field(args: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        BulkSpec(action=BulkAction.REPLAY, actor="ann", args=args)


def test_only_a_replay_takes_a_patch() -> None:
    with pytest.raises(InvalidInput, match="only replay and reassign"):
        BulkSpec(action=BulkAction.ABORT, actor="ann", args={"patch": {"a": 1}})
