"""The append log: one line for each change, each with its length, its checksum and its number.

    ["<length><crc of the record><check of these two>",{"seq":7,"orders":[…],…}]

Every line is JSON of its own (`jq '.[1]' log-*.jsonl`). The first line of a file says which store it
belongs to and the number of its first record.

Promises: a last write that was cut off is told from damage: it is short, or sectors of it are missing (they
read as zeros) and no later write follows. Never: skips a line, or reads on behind a bad one.
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
"""What a disk writes whole or not at all."""
_HEAD: Final = re.compile(rb'\["[0-9a-f]{24}",')
_ZEROS: Final = re.compile(rb"\0+")


class LogHead(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """The first line of a log file."""

    format: int
    lineage: str
    first: int
    """The number of the first record that this file is for."""


class Record(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """One change and its number: 1, 2, 3 … without a gap, through all files."""

    seq: int
    change: Change
    first: int = 0
    """The first record of the write that this was part of; 0: this one."""

    @property
    def write(self) -> int:
        return self.first or self.seq


class LogFile(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What was found in one file."""

    head: LogHead
    records: list[Record]
    good_bytes: int
    """Where the last whole record ends."""
    torn_bytes: int
    """What is behind it: a write that was cut off and never acknowledged."""

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
    """Ties length and checksum together, so that a changed length is not taken for a line cut short."""
    return (length * 0x9E3779B1 ^ crc) & 0xFFFFFFFF


def record_line(seq: int, change: Change, first: int) -> bytes:
    """`first`: the first record that goes to the disk in the same write."""
    of = 0 if first == seq else first
    return frame(_encoder.encode(Record(seq=seq, change=change, first=of)))


def head_line(lineage: str, first: int) -> bytes:
    return frame(_encoder.encode(LogHead(format=FORMAT, lineage=lineage, first=first)))


def read_log(path: Path, data: bytes, *, is_last: bool) -> LogFile:
    """The records of a file. Only the last file may end in a write that was cut off."""
    payloads, good = _payloads(path, data)
    torn = len(data) - good
    if torn and not is_last:
        raise _damaged(path, good, "a record is cut off, and there are later files")
    if not payloads:
        raise _damaged(path, 0, "its first line is missing or cut off")
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
    """Of the line that begins at `at`; None when it is cut short."""
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
    """Whether the bad line at `at` lacks sectors of the last write, which came to the disk in any order.
    A later write was begun only after this one was durable, so none may follow."""
    zeros = _ZEROS.search(data, at)
    if zeros is None or not before:
        return False
    begins = zeros.start() == at or zeros.start() % SECTOR_BYTES == 0
    if not begins or zeros.end() % SECTOR_BYTES or _HEAD.search(data, at + 1, zeros.start()):
        return False
    number = _decoded_head(path, before[0]).first + len(before) - 1
    return all(record.write <= number for record in _later(path, data, zeros.end()))


def _later(path: Path, data: bytes, after: int) -> Iterator[Record]:
    """Whatever is whole behind a gap."""
    for head in _HEAD.finditer(data, after):
        try:
            payload = _payload(path, data, head.start(), len(data))
            if payload is not None:
                yield _record.decode(payload)
        except (CorruptLog, msgspec.DecodeError, UnicodeDecodeError):
            continue


def _length(path: Path, at: int, head: bytes) -> int:
    """What the head of a line says, once it is known to be sound."""
    try:
        said = int(head[18:26], 16)
        length, crc = int(head[2:10], 16), int(head[10:18], 16)
    except ValueError:
        raise _damaged(path, at, "a record does not begin as one") from None
    if head[:2] != b'["' or head[26:] != b'",' or _check(length, crc) != said:
        raise _damaged(path, at, "the head of a record does not match its checksum")
    if length > RECORD_BYTES_MAX:
        raise _damaged(path, at, f"a record claims {length} bytes")
    return length


def _decoded_head(path: Path, payload: bytes) -> LogHead:
    try:
        head = _head.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _damaged(path, 0, f"its first line is not that of a log ({error})") from error
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
        raise _damaged(path, 0, f"a record is sound but not one of ours ({error})") from error


def _damaged(path: Path, at: int, what: str) -> CorruptLog:
    return CorruptLog(
        f"{path} is damaged at byte {at}: {what}. Nothing was changed. Restore the state directory from "
        "a copy, or reconcile with the exchange and start a new one; do not cut the file by hand unless "
        "you know that nothing behind that byte was acknowledged"
    )
