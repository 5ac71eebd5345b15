"""The rules of task output: where a chunk goes, and what is kept of a long stream.

A stream of a run is a row of bytes from offset 0. Promises: bytes are appended without a gap and never
change; a repeated chunk is recognised by its bytes. Of a long stream the first `HEAD_BYTES` and at least the
last `TAIL_BYTES` are kept; between them only the size. Never: I/O.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Final

import msgspec

from holdfast.core.check import shown
from holdfast.errors import InvalidInput, PayloadTooLarge

KEPT_BYTES: Final = 1_048_576
"""What is kept of a long stream."""


def head_and_tail(limit: int) -> tuple[int, int]:
    """How many bytes of the beginning and of the end of a stream are kept, of `limit` in all: a quarter and
    the rest. The one rule for hosts and the store, so that the store drops nothing that a host has kept."""
    head = min(limit - limit * 3 // 4, KEPT_BYTES // 4)
    return head, limit - head


HEAD_BYTES, TAIL_BYTES = head_and_tail(KEPT_BYTES)
FOLD_BYTES: Final = 262_144
"""The middle is folded each time that the stream has grown by this."""
PART_BYTES: Final = 32_768
"""What one transaction of a handler, and one frame of the live feed, takes."""
CALL_BYTES_MAX: Final = 1_048_576
"""What one call of a runner takes."""


class StreamName(StrEnum):
    """The streams of a run."""

    STDOUT = "stdout"
    STDERR = "stderr"
    LOG = "log"


class Placement(StrEnum):
    """What happens to a chunk."""

    APPEND = "append"
    DUPLICATE = "duplicate"
    GAP = "output-gap"
    MISMATCH = "output-mismatch"


class Placed(msgspec.Struct, frozen=True, gc=False):
    """The ruling on a chunk."""

    outcome: Placement
    start: int
    """The offset at which `data` is appended."""
    data: bytes
    end: int
    """The end of the stream after the ruling; for a gap, the offset to resume from."""


class Piece(msgspec.Struct, frozen=True, gc=False):
    """A stored part of a stream. `data` is None where the middle was folded."""

    start: int
    size: int
    data: bytes | None


def place(end: int, start: int | None, data: bytes, pieces: tuple[Piece, ...] = ()) -> Placed:
    """Rules on a chunk. `end`: the end of the stream. `pieces`: the stored parts that the chunk overlaps;
    needed only if it starts before the end."""
    if start is None:
        start = end
    if start > end:
        return Placed(Placement.GAP, end, b"", end)
    overlap = min(end - start, len(data))
    if overlap and not _agrees(start, data[:overlap], pieces):
        return Placed(Placement.MISMATCH, end, b"", end)
    rest = data[overlap:]
    if not rest:
        return Placed(Placement.DUPLICATE, end, b"", end)
    return Placed(Placement.APPEND, end, rest, end + len(rest))


def written(data: str | bytes) -> bytes:
    """The bytes that a runner writes in one call."""
    if isinstance(data, str):
        try:
            data = data.encode()
        except UnicodeEncodeError as error:
            raise InvalidInput(f"output is not text in UTF-8: {error}") from None
    if not isinstance(data, bytes):
        raise InvalidInput(f"output {shown(data)} is neither text nor bytes")
    if len(data) > CALL_BYTES_MAX:
        raise PayloadTooLarge(
            f"output has {len(data)} bytes: at most {CALL_BYTES_MAX} in one call; write it in parts"
        )
    return data


def parts(data: bytes) -> Iterator[bytes]:
    for start in range(0, len(data), PART_BYTES):
        yield data[start : start + PART_BYTES]


def split(start: int, data: bytes) -> list[tuple[int, bytes]]:
    """The rows of an appended chunk. It is cut where the head ends, so that the head is kept exactly."""
    room = HEAD_BYTES - start
    if 0 < room < len(data):
        return [(start, data[:room]), (HEAD_BYTES, data[room:])]
    return [(start, data)]


def fold_through(before: int, after: int) -> int | None:
    """Rows between the head and this offset are folded now; None if none are."""
    if after <= HEAD_BYTES + TAIL_BYTES or before // FOLD_BYTES == after // FOLD_BYTES:
        return None
    return after - TAIL_BYTES


def _agrees(start: int, data: bytes, pieces: tuple[Piece, ...]) -> bool:
    """Whether the stored bytes are these. Folded bytes cannot be compared and count as equal."""
    for piece in pieces:
        first = max(start, piece.start)
        last = min(start + len(data), piece.start + piece.size)
        if first >= last or piece.data is None:
            continue
        stored = piece.data[first - piece.start : last - piece.start]
        if stored != data[first - start : last - start]:
            return False
    return True
