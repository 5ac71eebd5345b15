"""Queries of subscriptions, and the bytes of output frames."""

from __future__ import annotations

from base64 import b64decode
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, strategies as st

from holdfast.core.event_query import QUERY_CHARS_MAX, accepts_event, event_query
from holdfast.core.output import Piece
from holdfast.core.output_frame import output_data
from holdfast.errors import InvalidInput

FAILED = {"task_id": "t1", "type": "mail.send", "to": "failed", "node": "n1"}
PROGRESS = {"task_id": "t1", "type": "mail.send", "done": 0.5}


@pytest.mark.parametrize(
    ("query", "payload", "is_accepted"),
    [
        ("type:mail.*", FAILED, True),
        ("type:mail.* status:failed,stuck", FAILED, True),
        ("status:failed", PROGRESS, False),
        ("-status:failed", PROGRESS, True),
        ("id:t1 version:>=3", FAILED, True),
        ("version:>3", FAILED, False),
        ("node:n1 OR type:other", FAILED, True),
        ("project:forge", FAILED, True),
        ("project:default", FAILED, False),
        ("-type:x", {"queue": "low"}, False),
    ],
)
def test_events_are_judged_by_what_they_carry(
    query: str, payload: dict[str, Any], is_accepted: bool
) -> None:
    assert accepts_event(event_query(query), payload, "forge", 3) is is_accepted


@pytest.mark.parametrize(
    "query",
    [
        "",
        "type:x sort:-created",
        "queue:low",
        "type:x (status:failed OR -args.n:1)",
        "age:>1h",
        "type:",
        "type:" + "x" * QUERY_CHARS_MAX,
    ],
)
def test_what_events_do_not_carry_is_refused(query: str) -> None:
    with pytest.raises(InvalidInput):
        event_query(query)


@given(st.binary(max_size=40), st.data())
def test_the_bytes_of_a_chunk(stream: bytes, data: st.DataObject) -> None:
    """However the stream is cut into pieces, and whichever range is asked for."""
    cuts = sorted(data.draw(st.sets(st.integers(0, len(stream)))) | {0, len(stream)})
    folded = data.draw(st.sets(st.integers(0, len(cuts))))
    pieces = [
        Piece(a, b - a, None if nth in folded else stream[a:b])
        for nth, (a, b) in enumerate(pairwise(cuts))
    ]
    start = data.draw(st.integers(0, len(stream)))
    size = data.draw(st.integers(0, len(stream) - start))
    overlapping = [p for p in pieces if p.start < start + size and p.start + p.size > start]
    fields = output_data(start, size, overlapping)
    expected = stream[start : start + size]
    if any(piece.data is None for piece in overlapping):
        assert fields == {"gap": True}
    elif "data" in fields:
        assert fields == {"data": expected.decode()}
    else:
        assert b64decode(fields["data_base64"]) == expected
        with pytest.raises(UnicodeDecodeError):
            expected.decode()


def test_output_that_was_deleted_is_a_gap() -> None:
    assert output_data(0, 3, []) == {"gap": True}
    assert output_data(0, 3, [Piece(0, 2, b"ab")]) == {"gap": True}
    assert output_data(0, 3, [Piece(1, 2, b"bc")]) == {"gap": True}
