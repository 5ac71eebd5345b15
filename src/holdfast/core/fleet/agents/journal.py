"""The journal of an agent: its records, their encoding, and what they prove after a crash.

    offered → accepted → go → started → exited → reported → acked

Every record is a line with a checksum. The agent appends a record, syncs it, and only then takes the step
that the record announces. `started` is on the disk before the command begins, so a journal without it
proves that nothing has run.

Promises: a write that was cut off at the end is ignored, because its step was never taken. A bad line
before a good one is damage, and damage proves nothing. `RECOVERY` has one row for each case of the contract.
Never: I/O, a clock.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from enum import IntEnum, StrEnum
from typing import Final, TypeAlias

import msgspec

from holdfast.core.fleet.agents.wire import AgentOffer, AgentResult

CHECKSUM_CHARS: Final = 8


class Step(IntEnum):
    """How far a token has got, in order."""

    NONE = 0
    OFFERED = 1
    ACCEPTED = 2
    GO = 3
    STARTED = 4
    EXITED = 5
    REPORTED = 6
    ACKED = 7


class ProcessMark(msgspec.Struct, frozen=True):
    """Names one process of one boot of a machine: ids of processes are used again, start times are not."""

    pid: int
    start: int
    """In ticks since the boot, as the system counts them."""
    boot_id: str


class OfferedRecord(msgspec.Struct, frozen=True, tag="offered", tag_field="step"):
    """The offer, whole: after a restart the agent has no other copy."""

    offer: AgentOffer


class AcceptedRecord(msgspec.Struct, frozen=True, tag="accepted", tag_field="step"):
    pass


class GoRecord(msgspec.Struct, frozen=True, tag="go", tag_field="step"):
    pass


class StartedRecord(msgspec.Struct, frozen=True, tag="started", tag_field="step"):
    """The process exists and waits: the command begins after this record is on the disk."""

    process: ProcessMark
    probe: bool = False
    """Whether the command is the probe that decides about an interrupted one."""


class DroppedRecord(msgspec.Struct, frozen=True, tag="dropped", tag_field="step"):
    """Output that the spool had no room for."""

    stream: str
    start: int
    size: int


class ExitedRecord(msgspec.Struct, frozen=True, tag="exited", tag_field="step"):
    """The result. It is written before it is sent, so it does not change any more."""

    result: AgentResult


class ReportedRecord(msgspec.Struct, frozen=True, tag="reported", tag_field="step"):
    pass


class AckedRecord(msgspec.Struct, frozen=True, tag="acked", tag_field="step"):
    pass


Record: TypeAlias = (
    OfferedRecord
    | AcceptedRecord
    | GoRecord
    | StartedRecord
    | DroppedRecord
    | ExitedRecord
    | ReportedRecord
    | AckedRecord
)
STEPS: Final[dict[type, Step]] = {
    OfferedRecord: Step.OFFERED,
    AcceptedRecord: Step.ACCEPTED,
    GoRecord: Step.GO,
    StartedRecord: Step.STARTED,
    ExitedRecord: Step.EXITED,
    ReportedRecord: Step.REPORTED,
    AckedRecord: Step.ACKED,
}
_encoder: Final = msgspec.json.Encoder()
_decoder: Final[msgspec.json.Decoder[Record]] = msgspec.json.Decoder(Record)


def encode(record: Record) -> bytes:
    """One line: the checksum of the record, and the record."""
    payload = _encoder.encode(record)
    return b"%08x %b\n" % (zlib.crc32(payload), payload)


class TokenLog(msgspec.Struct, frozen=True, kw_only=True):
    """What the journal has about one token."""

    token: int
    records: tuple[Record, ...] = ()
    good_bytes: int = 0
    """Where the last whole record ends."""
    torn_bytes: int = 0
    """The bytes after it: a write that was cut off, whose step was never taken."""
    is_damaged: bool = False
    """Whether a bad line stands before a good one."""

    @property
    def step(self) -> Step:
        return max((STEPS.get(type(record), Step.NONE) for record in self.records), default=Step(0))

    @property
    def offer(self) -> AgentOffer | None:
        return next((r.offer for r in self.records if isinstance(r, OfferedRecord)), None)

    @property
    def started(self) -> StartedRecord | None:
        """The last start: an interrupted command may have been started again."""
        return next((r for r in reversed(self.records) if isinstance(r, StartedRecord)), None)

    @property
    def result(self) -> AgentResult | None:
        return next((r.result for r in self.records if isinstance(r, ExitedRecord)), None)

    @property
    def dropped(self) -> list[DroppedRecord]:
        return [record for record in self.records if isinstance(record, DroppedRecord)]


def decode(token: int, data: bytes) -> TokenLog:
    """The records of a file. Blocks that were never written read as zeros."""
    records: list[Record] = []
    good = 0
    lines = data.rstrip(b"\0").split(b"\n")
    for at, line in enumerate(lines[:-1]):
        record = _record(line)
        if record is None:
            later = any(_record(other) is not None for other in lines[at + 1 :])
            torn = len(data) - good
            return TokenLog(
                token=token,
                records=tuple(records),
                good_bytes=good,
                torn_bytes=torn,
                is_damaged=later,
            )
        records.append(record)
        good += len(line) + 1
    return TokenLog(
        token=token, records=tuple(records), good_bytes=good, torn_bytes=len(data) - good
    )


def _record(line: bytes) -> Record | None:
    """None: the line is not whole."""
    checksum, _, payload = line.partition(b" ")
    if len(checksum) != CHECKSUM_CHARS or b"%08x" % zlib.crc32(payload) != checksum:
        return None
    try:
        return _decoder.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


class ProcessEvidence(StrEnum):
    """What the agent finds of a process that its journal names."""

    NONE = "none"
    """The journal names none."""
    ALIVE = "alive"
    """It runs, with the same start time."""
    EXITED = "exited"
    """Its exit record is on the disk."""
    GONE = "gone"
    """It does not run and has left no exit record, or the machine was started again."""


class Finding(StrEnum):
    """What the journal proves about a token."""

    NEVER_STARTED = "never_started"
    RUNNING = "running"
    EXITED = "exited"
    UNKNOWN = "unknown"
    RESULT = "result"
    """The result is in the journal: it is sent until it is acknowledged."""
    DONE = "done"
    """The server has the result."""


class RecoveryRow(msgspec.Struct, frozen=True):
    """One row of the table of recovery."""

    steps: frozenset[Step]
    evidence: frozenset[ProcessEvidence]
    is_ours: bool | None
    """Whether the token is younger than the journal. None: it does not matter."""
    finding: Finding


_BEFORE: Final = frozenset({Step.NONE, Step.OFFERED, Step.ACCEPTED, Step.GO})
_ANY: Final = frozenset(ProcessEvidence)
RECOVERY: Final = (
    RecoveryRow(_BEFORE, _ANY, True, Finding.NEVER_STARTED),
    RecoveryRow(frozenset({Step.NONE}), _ANY, False, Finding.UNKNOWN),
    RecoveryRow(_BEFORE - {Step.NONE}, _ANY, False, Finding.NEVER_STARTED),
    RecoveryRow(
        frozenset({Step.STARTED}), frozenset({ProcessEvidence.ALIVE}), None, Finding.RUNNING
    ),
    RecoveryRow(
        frozenset({Step.STARTED}), frozenset({ProcessEvidence.EXITED}), None, Finding.EXITED
    ),
    RecoveryRow(
        frozenset({Step.STARTED}),
        frozenset({ProcessEvidence.GONE, ProcessEvidence.NONE}),
        None,
        Finding.UNKNOWN,
    ),
    RecoveryRow(frozenset({Step.EXITED, Step.REPORTED}), _ANY, None, Finding.RESULT),
    RecoveryRow(frozenset({Step.ACKED}), _ANY, None, Finding.DONE),
)
"""First match counts; every combination has exactly one row."""


def recover(log: TokenLog, evidence: ProcessEvidence, *, is_ours: bool = True) -> Finding:
    """What is proven about a token. `is_ours`: the token is younger than the journal, so a missing record
    means that nothing was ever journaled."""
    step = log.step
    if log.is_damaged and step < Step.EXITED:
        # What stood in the bad line is not known. It may have been a start.
        return {
            ProcessEvidence.ALIVE: Finding.RUNNING,
            ProcessEvidence.EXITED: Finding.EXITED,
        }.get(evidence, Finding.UNKNOWN)
    for rule in RECOVERY:
        fits = rule.is_ours is None or rule.is_ours == is_ours
        if fits and step in rule.steps and evidence in rule.evidence:
            return rule.finding
    raise AssertionError(f"no row for {step.name} and {evidence}")


def last_token(logs: Iterable[TokenLog]) -> int:
    """The newest token of a journal: the agent refuses older ones and this one."""
    return max((log.token for log in logs), default=0)
