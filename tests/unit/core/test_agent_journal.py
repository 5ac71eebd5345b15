"""The journal of an agent: encoding, cut-off and damaged files, and the table of recovery row by row."""

import itertools
import zlib

import pytest
from hypothesis import given, strategies as st

from holdfast.core.fleet.agents.journal import (
    RECOVERY,
    STEPS,
    AcceptedRecord,
    AckedRecord,
    DroppedRecord,
    ExitedRecord,
    Finding,
    GoRecord,
    OfferedRecord,
    ProcessEvidence,
    ProcessMark,
    Record,
    ReportedRecord,
    StartedRecord,
    Step,
    TokenLog,
    decode,
    encode,
    last_token,
    recover,
)
from holdfast.core.fleet.agents.wire import AgentOffer, AgentResult

OFFER = AgentOffer(
    execution="e1", fence=1, token=7, job="job_1", command_type="exec", kind="argv", argv=["true"]
)
RESULT = AgentResult(id="r-7", execution="e1", token=7, state="exited", exit_code=0)
MARK = ProcessMark(12, 345, "boot")
LIFE: tuple[Record, ...] = (
    OfferedRecord(OFFER),
    AcceptedRecord(),
    GoRecord(),
    StartedRecord(MARK),
    ExitedRecord(RESULT),
    ReportedRecord(),
    AckedRecord(),
)
texts = st.text(max_size=20)
records = st.one_of(
    st.builds(
        OfferedRecord,
        st.builds(
            lambda argv, env: AgentOffer(
                execution="e",
                fence=1,
                token=1,
                job="j",
                command_type="c",
                kind="argv",
                argv=argv,
                env=env,
            ),
            st.lists(texts, max_size=3),
            st.dictionaries(texts, texts, max_size=2),
        ),
    ),
    st.just(AcceptedRecord()),
    st.just(GoRecord()),
    st.builds(
        StartedRecord,
        st.builds(ProcessMark, st.integers(0, 2**22), st.integers(0, 2**53), texts),
        st.booleans(),
    ),
    st.builds(DroppedRecord, texts, st.integers(0, 2**53), st.integers(0, 2**53)),
    st.just(ExitedRecord(RESULT)),
    st.just(ReportedRecord()),
    st.just(AckedRecord()),
)


def file_of(*written: Record) -> bytes:
    return b"".join(map(encode, written))


def log_at(step: Step) -> TokenLog:
    return decode(7, file_of(*LIFE[:step]))


@given(st.lists(records, max_size=8))
def test_what_was_written_is_read(written: list[Record]) -> None:
    data = file_of(*written)
    log = decode(3, data)
    assert log == TokenLog(token=3, records=tuple(written), good_bytes=len(data))


@given(st.lists(records, min_size=1, max_size=6), st.data())
def test_a_write_that_was_cut_off_is_ignored(written: list[Record], data: st.DataObject) -> None:
    whole = file_of(*written[:-1])
    last = encode(written[-1])
    kept = data.draw(st.integers(0, len(last) - 1))
    zeros = data.draw(st.integers(0, 600))
    log = decode(3, whole + last[:kept] + b"\0" * zeros)
    assert log.records == tuple(written[:-1])
    assert not log.is_damaged
    assert (log.good_bytes, log.torn_bytes) == (len(whole), kept + zeros)


@given(st.lists(records, min_size=2, max_size=6), st.data())
def test_a_changed_byte_before_a_whole_record_is_damage(
    written: list[Record], data: st.DataObject
) -> None:
    lines = [encode(record) for record in written]
    bad = data.draw(st.integers(0, len(lines) - 2))
    at = data.draw(st.integers(0, len(lines[bad]) - 2))
    line = bytearray(lines[bad])
    line[at] ^= 1 << data.draw(st.integers(0, 6))
    if line[at] in b"\n\0":
        return
    log = decode(3, b"".join([*lines[:bad], bytes(line), *lines[bad + 1 :]]))
    assert log.is_damaged
    assert log.records == tuple(written[:bad])


@given(st.binary(max_size=200))
def test_any_bytes_are_read_without_an_error(data: bytes) -> None:
    log = decode(1, data)
    assert log.good_bytes + log.torn_bytes == len(data)


def test_a_record_of_a_newer_version_counts_as_damage_or_as_cut_off() -> None:
    payload = b'{"step":"levitated"}'
    line = b"%08x %b\n" % (zlib.crc32(payload), payload)
    assert decode(1, encode(GoRecord()) + line).records == (GoRecord(),)
    assert decode(1, line + encode(GoRecord())).is_damaged


def test_a_log_knows_its_step_offer_start_and_result() -> None:
    assert [log_at(step).step for step in Step] == list(Step)
    whole = log_at(Step.ACKED)
    assert whole.offer == OFFER
    assert whole.result == RESULT
    again = decode(7, file_of(*LIFE[:4], StartedRecord(ProcessMark(13, 9, "b"), probe=True)))
    assert again.started == StartedRecord(ProcessMark(13, 9, "b"), probe=True)
    assert decode(7, file_of(DroppedRecord("stdout", 0, 5))).dropped == [
        DroppedRecord("stdout", 0, 5)
    ]
    nothing = log_at(Step.NONE)
    assert (nothing.started, nothing.offer, nothing.result) == (None, None, None)


def test_the_newest_token_counts() -> None:
    assert last_token([]) == 0
    assert last_token([TokenLog(token=4), TokenLog(token=9), TokenLog(token=2)]) == 9


@pytest.mark.parametrize(
    ("step", "evidence", "is_ours", "finding"),
    [
        (Step.NONE, ProcessEvidence.NONE, True, Finding.NEVER_STARTED),
        (Step.OFFERED, ProcessEvidence.NONE, True, Finding.NEVER_STARTED),
        (Step.ACCEPTED, ProcessEvidence.NONE, True, Finding.NEVER_STARTED),
        (Step.GO, ProcessEvidence.NONE, True, Finding.NEVER_STARTED),
        (Step.NONE, ProcessEvidence.NONE, False, Finding.UNKNOWN),
        (Step.STARTED, ProcessEvidence.ALIVE, True, Finding.RUNNING),
        (Step.STARTED, ProcessEvidence.EXITED, True, Finding.EXITED),
        (Step.STARTED, ProcessEvidence.GONE, True, Finding.UNKNOWN),
        (Step.EXITED, ProcessEvidence.GONE, True, Finding.RESULT),
        (Step.REPORTED, ProcessEvidence.GONE, True, Finding.RESULT),
        (Step.ACKED, ProcessEvidence.GONE, True, Finding.DONE),
    ],
)
def test_rows_of_the_contract(
    step: Step, evidence: ProcessEvidence, is_ours: bool, finding: Finding
) -> None:
    assert recover(log_at(step), evidence, is_ours=is_ours) is finding


def test_every_combination_has_exactly_one_row() -> None:
    for step, evidence, is_ours in itertools.product(Step, ProcessEvidence, (True, False)):
        rows = [
            row
            for row in RECOVERY
            if step in row.steps and evidence in row.evidence and row.is_ours in (None, is_ours)
        ]
        assert len(rows) == 1, (step, evidence, is_ours)
        assert recover(log_at(step), evidence, is_ours=is_ours) is rows[0].finding


def test_nothing_is_called_never_started_once_it_may_have_started() -> None:
    for step, evidence, is_ours in itertools.product(Step, ProcessEvidence, (True, False)):
        if step >= Step.STARTED:
            found = recover(log_at(step), evidence, is_ours=is_ours)
            assert found is not Finding.NEVER_STARTED


@pytest.mark.parametrize("evidence", list(ProcessEvidence))
def test_a_damaged_journal_proves_nothing(evidence: ProcessEvidence) -> None:
    data = b"garbage\n" + encode(GoRecord())
    log = decode(7, data)
    assert log.is_damaged
    expected = {ProcessEvidence.ALIVE: Finding.RUNNING, ProcessEvidence.EXITED: Finding.EXITED}
    assert recover(log, evidence) is expected.get(evidence, Finding.UNKNOWN)


def test_every_record_but_a_drop_is_a_step() -> None:
    assert set(STEPS.values()) == set(Step) - {Step.NONE}
    assert decode(1, file_of(DroppedRecord("stdout", 0, 1))).step is Step.NONE
