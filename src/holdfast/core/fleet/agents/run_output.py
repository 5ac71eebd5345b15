"""The output of a run that has ended: what is kept of each stream, and whether it is all.

Promises: a stream is complete if every byte that the agent counted is there. Of a long stream the head and
the tail are kept, as of a running task; the places of missing bytes are named. Never: I/O.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from holdfast.core import codec
from holdfast.core.output import HEAD_BYTES, TAIL_BYTES, Piece

GAPS_MAX: Final = 100
"""Places of missing bytes that are named for a stream."""


class StreamState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One stream of an ended run, as `execution.output_json` has it."""

    bytes: int
    """How long the stream was on the host."""
    kept: int
    sha256: str | None = None
    """Of the bytes that are kept: the name of their blob. None: the agent has not sent all of them yet."""
    complete: bool = False
    gaps: list[tuple[int, int]] = []
    """(start, size) of bytes that are not kept."""


class Assembled(msgspec.Struct, frozen=True):
    """The bytes of a stream that are kept, and what is missing between them."""

    data: bytes
    gaps: list[tuple[int, int]]
    end: int


_states: Final = msgspec.json.Decoder(dict[str, StreamState])


def read_states(text: str | None) -> dict[str, StreamState]:
    return {} if text is None else _states.decode(text)


def write_states(states: Mapping[str, StreamState]) -> str:
    return codec.dumps(msgspec.to_builtins(states))


def awaits_more(text: str | None) -> bool:
    """Whether bytes of a run that has ended are still on their way."""
    return any(state.sha256 is None for state in read_states(text).values())


def assembled(pieces: Sequence[Piece]) -> Assembled:
    """The stored parts of a stream, in order. Too long a middle is left out."""
    parts: list[bytes] = []
    gaps: list[tuple[int, int]] = []
    end = 0
    for piece in pieces:
        if piece.data is None:
            _join(gaps, piece.start, piece.size)
        else:
            parts.append(piece.data)
        end = piece.start + piece.size
    data = b"".join(parts)
    if len(data) > HEAD_BYTES + TAIL_BYTES:
        cut = len(data) - HEAD_BYTES - TAIL_BYTES
        data = data[:HEAD_BYTES] + data[-TAIL_BYTES:]
        gaps = [(HEAD_BYTES, cut + sum(size for _, size in gaps))]
    return Assembled(data, gaps[:GAPS_MAX], end)


def _join(gaps: list[tuple[int, int]], start: int, size: int) -> None:
    if gaps and sum(gaps[-1]) == start:
        gaps[-1] = (gaps[-1][0], gaps[-1][1] + size)
    else:
        gaps.append((start, size))


def state_of(kept: Assembled, expected: int | None, digest: str) -> StreamState:
    """The state of a stream that gets no more bytes."""
    is_whole = expected is not None and kept.end >= expected
    return StreamState(
        bytes=max(kept.end, expected or 0),
        kept=len(kept.data),
        sha256=digest,
        complete=is_whole and not kept.gaps,
        gaps=kept.gaps,
    )


def waiting(expected: Mapping[str, int], ends: Mapping[str, int]) -> dict[str, StreamState]:
    """The states of streams whose bytes have not all come."""
    return {
        stream: StreamState(bytes=size, kept=ends.get(stream, 0))
        for stream, size in expected.items()
    }


def digest_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def blob_names(states: Iterable[StreamState]) -> list[str]:
    """The blobs that streams refer to. An empty one has none."""
    return [state.sha256 for state in states if state.sha256 is not None and state.kept]
