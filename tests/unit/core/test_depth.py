"""The depth of JSON values: one bound for every face."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from holdfast.core import codec
from holdfast.core.submit import encode_payload
from holdfast.core.worker.changes import checked_json
from holdfast.errors import InvalidInput, UnserialisablePayload

values = st.recursive(
    st.none() | st.integers() | st.text(max_size=5) | st.just('[{"]'),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
)


def depth(value: object) -> int:
    if isinstance(value, dict):
        return 1 + max(map(depth, value.values()), default=0)
    if isinstance(value, list):
        return 1 + max(map(depth, value), default=0)
    return 0


def nested(levels: int) -> object:
    value: object = []
    for _ in range(levels - 1):
        value = [value]
    return value


@given(values, st.integers(0, 6))
def test_the_depth_of_text_is_that_of_its_value(value: object, most: int) -> None:
    text = codec.dumps(value)
    assert codec.is_deeper(text, most) == (depth(value) > most)
    assert codec.is_deeper(text.encode(), most) == (depth(value) > most)


def test_every_face_takes_the_same_depth() -> None:
    deepest, deeper = nested(codec.DEPTH_MAX), nested(codec.DEPTH_MAX + 1)
    assert checked_json("x", encode_payload(deepest), 1_000)
    with pytest.raises(UnserialisablePayload, match="nested deeper than 32"):
        encode_payload(deeper)
    with pytest.raises(InvalidInput, match="nested deeper than 32"):
        checked_json("x", codec.dumps(deeper), 1_000)
