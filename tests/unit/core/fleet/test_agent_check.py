"""What is valid in a message of an agent."""

from hypothesis import given, strategies as st

from holdfast.core.fleet.agents.check import check_sync
from holdfast.core.fleet.agents.wire import (
    REASON_CHARS_MAX,
    AgentCommandAck,
    AgentResult,
    AgentSync,
)

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
