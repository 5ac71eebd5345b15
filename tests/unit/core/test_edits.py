"""Edits of payloads: a merge changes only its fields, and the event has the replaced values."""

from __future__ import annotations

from typing import Any

from hypothesis import given, strategies as st

from holdfast.core import codec, edits

scalars = st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5)
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=2), max_leaves=4)
objects = st.dictionaries(st.sampled_from("abcdef"), values)


@given(objects, objects)
def test_a_merge_changes_the_fields_that_it_names(
    before: dict[str, Any], fields: dict[str, Any]
) -> None:
    merged = edits.merged(codec.dumps(before), codec.dumps(fields))
    assert merged is not None
    assert codec.loads(merged) == {**before, **fields}


@given(objects, objects)
def test_the_event_has_the_previous_values(before: dict[str, Any], after: dict[str, Any]) -> None:
    change = edits.difference(codec.dumps(before), codec.dumps(after))
    old_fields = {k: v for k, v in after.items() if k not in change.get("added", ())}
    assert {**old_fields, **change["before"]} == before


@given(values, values)
def test_a_payload_that_is_not_an_object_is_recorded_whole(before: Any, after: Any) -> None:
    assert edits.merged(codec.dumps(before), codec.dumps(after)) is None
    assert edits.difference(codec.dumps(before), codec.dumps(after)) == {"before": before}


def test_a_long_payload_is_not_repeated() -> None:
    long = codec.dumps({"text": "x" * edits.BEFORE_CHARS_MAX})
    assert edits.difference(long, "{}") == {"before_omitted": True}
    other = codec.dumps({"text": "x" * edits.BEFORE_CHARS_MAX, "n": 1})
    assert edits.difference(other, other.replace('"n":1', '"n":2')) == {"before": {"n": 1}}
