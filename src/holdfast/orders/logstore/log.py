"""The append log: one line for each change, with its length, its checksum and its number.

    ["<length><crc of the record><check of these two>",{"seq":7,"orders":[…],…}]

Every line is valid JSON (`jq '.[1]' log-*.jsonl`). The first line of a file identifies the store and the
number of its first record.

Promises: an incomplete last write is distinguished from damage. It is short, or sectors of it are missing
(they read as zeros) and no later write follows.
Never: skips a line, or reads past a bad one.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from holdfast.orders.errors import CorruptLog
from holdfast.orders.model.commands import Change

FORMAT: Final = 1
SUFFIX: Final = b"]\n"
HEAD_BYTES: Final = 28
RECORD_BYTES_MAX: Final = 256 * 1024 * 1024
SECTOR_BYTES: Final = 512
"""The unit that a disk writes completely or not at all."""
_HEAD: Final = re.compile(rb'\["[0-9a-f]{24}",')
_ZEROS: Final = re.compile(rb"\0+")


class LogHead(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """The first line of a log file."""

    format: int
    lineage: str
    first: int
    """The number of the first record of this file."""


class Record(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """One change and its number: 1, 2, 3 … without a gap, across all files."""

    seq: int
    change: Change
    first: int = 0
    """The first record of the write that contained this one; 0: this one."""

    @property
    def write(self) -> int:
        return self.first or self.seq


class LogFile(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """The contents of one file."""

    head: LogHead
    records: list[Record]
    good_bytes: int
    """Where the last complete record ends."""
    torn_bytes: int
    """The bytes after it: an incomplete write that was never acknowledged."""

    @property
    def last(self) -> int:
        return self.head.first + len(self.records) - 1


_encoder: Final = msgspec.json.Encoder(decimal_format="string")
_record: Final = msgspec.json.Decoder(Record)
_head: Final = msgspec.json.Decoder(LogHead)


def frame(payload: bytes) -> bytes:
    length, crc = len(payload), zlib.crc32(payload)
    return b'["%08x%08x%08x",%b]\n' % (length, crc, _check(length, crc), payload)


def _check(length: int, crc: int) -> int:
    """Checks length and checksum together, so that a changed length is not taken for a short line."""
    return (length * 0x9E3779B1 ^ crc) & 0xFFFFFFFF


def record_line(seq: int, change: Change, first: int) -> bytes:
    """`first`: the first record of the same write."""
    of = 0 if first == seq else first
    return frame(_encoder.encode(Record(seq=seq, change=change, first=of)))


def head_line(lineage: str, first: int) -> bytes:
    return frame(_encoder.encode(LogHead(format=FORMAT, lineage=lineage, first=first)))


def read_log(path: Path, data: bytes, *, is_last: bool) -> LogFile:
    """The records of a file. Only the last file may end in an incomplete write."""
    payloads, good = _payloads(path, data)
    torn = len(data) - good
    if torn and not is_last:
        raise _damaged(path, good, "a record is incomplete, and there are later files")
    if not payloads:
        raise _damaged(path, 0, "its first line is missing or incomplete")
    head = _decoded_head(path, payloads[0])
    records = [_decoded(path, payload) for payload in payloads[1:]]
    for expected, record in enumerate(records, head.first):
        if record.seq != expected:
            raise _damaged(path, 0, f"record {record.seq} stands where {expected} should be")
    return LogFile(head=head, records=records, good_bytes=good, torn_bytes=torn)


def _payloads(path: Path, data: bytes) -> tuple[list[bytes], int]:
    """The checked payloads, and where they end."""
    # Blocks that were never written read as zeros; a line never ends in one.
    end = len(data.rstrip(b"\0"))
    found: list[bytes] = []
    at = 0
    while at < end:
        try:
            payload = _payload(path, data, at, end)
        except CorruptLog:
            if _is_torn(path, data[:end], at, found):
                break
            raise
        if payload is None:
            break
        found.append(payload)
        at += HEAD_BYTES + len(payload) + 2
    return found, min(at, len(data))


def _payload(path: Path, data: bytes, at: int, end: int) -> bytes | None:
    """The payload of the line that starts at `at`; None when the line is incomplete."""
    if at + HEAD_BYTES > end:
        return None
    head = data[at : at + HEAD_BYTES]
    length = _length(path, at, head)
    start = at + HEAD_BYTES
    payload = data[start : start + length]
    if start + length > end:
        return None
    if zlib.crc32(payload) != int(head[10:18], 16):
        raise _damaged(path, at, "a record does not match its checksum")
    tail = data[start + length : start + length + 2]
    if not SUFFIX.startswith(tail.rstrip(b"\0")):
        raise _damaged(path, start + length, "a record has no end")
    return payload


def _is_torn(path: Path, data: bytes, at: int, before: list[bytes]) -> bool:
    """Whether sectors of the last write are missing from the bad line at `at`: they reach the disk in any
    order. A later write starts only after this one is durable, so none may follow."""
    zeros = _ZEROS.search(data, at)
    if zeros is None or not before:
        return False
    begins = zeros.start() == at or zeros.start() % SECTOR_BYTES == 0
    if not begins or zeros.end() % SECTOR_BYTES or _HEAD.search(data, at + 1, zeros.start()):
        return False
    number = _decoded_head(path, before[0]).first + len(before) - 1
    return all(record.write <= number for record in _later(path, data, zeros.end()))


def _later(path: Path, data: bytes, after: int) -> Iterator[Record]:
    """Complete records after a gap."""
    for head in _HEAD.finditer(data, after):
        try:
            payload = _payload(path, data, head.start(), len(data))
            if payload is not None:
                yield _record.decode(payload)
        except (CorruptLog, msgspec.DecodeError, UnicodeDecodeError):
            continue


def _length(path: Path, at: int, head: bytes) -> int:
    """The length in the head of a line, once the head is verified."""
    try:
        said = int(head[18:26], 16)
        length, crc = int(head[2:10], 16), int(head[10:18], 16)
    except ValueError:
        raise _damaged(path, at, "a record does not start with a head") from None
    if head[:2] != b'["' or head[26:] != b'",' or _check(length, crc) != said:
        raise _damaged(path, at, "the head of a record does not match its checksum")
    if length > RECORD_BYTES_MAX:
        raise _damaged(path, at, f"a record claims {length} bytes")
    return length


def _decoded_head(path: Path, payload: bytes) -> LogHead:
    try:
        head = _head.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _damaged(path, 0, f"its first line is not the head of a log ({error})") from error
    if head.format != FORMAT:
        raise CorruptLog(
            f"{path} has format {head.format}; this version of Holdfast reads {FORMAT}: open it with "
            "the version that wrote it"
        )
    return head


def _decoded(path: Path, payload: bytes) -> Record:
    try:
        return _record.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _damaged(
            path, 0, f"a record has a valid checksum and unknown contents ({error})"
        ) from error


def _damaged(path: Path, at: int, what: str) -> CorruptLog:
    return CorruptLog(
        f"{path} is damaged at byte {at}: {what}. Nothing was changed. Restore the state directory from "
        "a copy, or reconcile with the exchange and start a new one; do not cut the file by hand unless "
        "you know that nothing behind that byte was acknowledged"
    )
