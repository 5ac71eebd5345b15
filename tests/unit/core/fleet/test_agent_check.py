"""What is valid in a message of an agent."""

from typing import Any

import pytest
from hypothesis import given, strategies as st

from holdfast.core.fleet.agents.check import check_sync
from holdfast.core.fleet.agents.wire import (
    REASON_CHARS_MAX,
    STREAM_BYTES_MAX,
    AgentChunk,
    AgentCommandAck,
    AgentResult,
    AgentSync,
)
from holdfast.errors import InvalidInput

SYNC = AgentSync(boot_id="b", incarnation=1, seq=1)


@given(
    st.one_of(
        st.text(st.characters(exclude_categories=())),
        st.text().map(lambda text: text + "x" * 3_000),
    )
)
def test_no_reason_keeps_a_result_from_being_taken(reason: str) -> None:
    result = AgentResult(id="r-1", execution="e1", token=1, state="exited", reason=reason)
    ack = AgentCommandAck("c1", "done", reason)
    message = AgentSync(
        boot_id="b", incarnation=1, seq=1, results=[result], refuses=[result], command_acks=[ack]
    )
    checked = check_sync(message)
    reasons = [result.reason for result in (*checked.results, *checked.refuses)]
    for said in (*reasons, checked.command_acks[0].reason):
        assert said.isprintable()
        assert len(said) <= REASON_CHARS_MAX
    assert check_sync(checked) == checked
    assert (checked.results[0].state, checked.results[0].token) == ("exited", 1)


def test_a_readable_message_stays_as_it_is() -> None:
    assert check_sync(SYNC) == SYNC


@pytest.mark.parametrize(
    "chunk",
    [
        {"start": 0, "gap": 2**53 - 1},
        {"start": STREAM_BYTES_MAX, "gap": 1},
        {"start": 2**53 - 1, "data_base64": "eA=="},
        {"start": STREAM_BYTES_MAX, "data_base64": "eA=="},
    ],
)
def test_an_absurd_offset_is_refused_and_hides_nothing(chunk: dict[str, Any]) -> None:
    said = AgentChunk(execution="e1", token=1, stream="stdout", **chunk)
    with pytest.raises(InvalidInput):
        check_sync(AgentSync(boot_id="b", incarnation=1, seq=1, chunks=[said]))


@pytest.mark.parametrize(
    "fields", [{"sizes": {"stdout": 2**53 - 1}}, {"gaps": {"stdout": [(1, STREAM_BYTES_MAX)]}}]
)
def test_an_absurd_size_of_a_result_is_refused(fields: dict[str, Any]) -> None:
    result = AgentResult(id="r-1", execution="e1", token=1, state="exited", **fields)
    with pytest.raises(InvalidInput):
        check_sync(AgentSync(boot_id="b", incarnation=1, seq=1, results=[result]))


def test_the_longest_stream_is_accepted() -> None:
    gap = AgentChunk(execution="e1", token=1, stream="stdout", start=1, gap=STREAM_BYTES_MAX - 1)
    message = AgentSync(boot_id="b", incarnation=1, seq=1, chunks=[gap])
    assert check_sync(message) == message
