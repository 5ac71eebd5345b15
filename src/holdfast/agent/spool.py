"""What an agent still has to send: results, statuses and output, within bounds.

The data itself is on the disk: results in the journal, output in the files of its run. The spool counts it,
says what goes first, and gives up the oldest output when there is no room.

Promises: at most `ENTRIES_MAX` entries and `BYTES_MAX` bytes. A result stays until it is acknowledged, output
until the server has it or the result of its run is acknowledged. Output that was given up is sent as a gap. A
full spool takes no new work.
Never: I/O; drops a result or a status.
"""

from __future__ import annotations

from typing import Final

import msgspec

from holdfast.core.fleet.agents.wire import CHUNK_BYTES_MAX, AgentSpool

ENTRIES_MAX: Final = 1_000
BYTES_MAX: Final = 64 * 1024 * 1024
RESULT_BYTES: Final = 512
"""What a result counts as, about its size in JSON."""


class Piece(msgspec.Struct, frozen=True):
    """A part of a stream to send."""

    token: int
    stream: str
    start: int
    size: int
    is_gap: bool


class Shed(msgspec.Struct, frozen=True):
    """Output that was given up."""

    token: int
    stream: str
    start: int
    size: int


class _Stream:
    """One stream: what the server has, what there is, and the gaps between."""

    __slots__ = ("end", "gaps", "next")

    def __init__(self) -> None:
        self.next = 0
        self.end = 0
        self.gaps: list[tuple[int, int]] = []

    def pieces(self) -> list[tuple[int, int, bool]]:
        """(start, size, is a gap) of what is left to send, in order, each at most a chunk."""
        found: list[tuple[int, int, bool]] = []
        at = self.next
        for start, size in self.gaps:
            if start + size <= at:
                continue
            found += _chunks(at, start)
            begin = max(at, start)
            found.append((begin, start + size - begin, True))
            at = start + size
        return [*found, *_chunks(at, self.end)]

    def waiting(self) -> tuple[int, int]:
        """(entries, bytes) of output that is left to send. A gap counts as an entry."""
        pieces = self.pieces()
        return len(pieces), sum(size for _, size, is_gap in pieces if not is_gap)

    def drop(self, start: int, size: int) -> None:
        """Makes a gap, and joins gaps that touch."""
        joined: list[tuple[int, int]] = []
        for begin, length in sorted([*self.gaps, (start, size)]):
            if joined and begin <= sum(joined[-1]):
                first = joined[-1][0]
                joined[-1] = (first, max(sum(joined[-1]), begin + length) - first)
            else:
                joined.append((begin, length))
        self.gaps = joined
        self.end = max(self.end, start + size)


def _chunks(start: int, end: int) -> list[tuple[int, int, bool]]:
    return [
        (at, min(CHUNK_BYTES_MAX, end - at), False) for at in range(start, end, CHUNK_BYTES_MAX)
    ]


class Spool:
    """The bounds of one agent."""

    def __init__(self, entries_max: int = ENTRIES_MAX, bytes_max: int = BYTES_MAX) -> None:
        self._entries_max, self._bytes_max = entries_max, bytes_max
        self._results: dict[str, int] = {}
        self._streams: dict[tuple[int, str], _Stream] = {}
        self.statuses = 0
        """Accepts, refusals and acknowledgements that wait to be sent."""

    # -- what comes in -----------------------------------------------------------------------------

    def put_result(self, id: str, size: int = RESULT_BYTES) -> None:
        self._results[id] = size

    def grow(self, token: int, stream: str, end: int) -> None:
        """The stream has bytes up to `end` now."""
        made = self._streams.setdefault((token, stream), _Stream())
        made.end = max(made.end, end)

    def gap(self, token: int, stream: str, start: int, size: int) -> None:
        """Bytes of the stream are missing."""
        self._streams.setdefault((token, stream), _Stream()).drop(start, size)

    # -- what goes ---------------------------------------------------------------------------------

    def acked(self, id: str) -> None:
        self._results.pop(id, None)

    def taken(self, token: int, stream: str, next: int) -> None:
        """The server has the stream up to `next`. It may ask for earlier bytes again."""
        made = self._streams.get((token, stream))
        if made is not None:
            made.next = min(max(0, next), made.end)

    def forget(self, token: int) -> None:
        """Nothing of the run's output is sent any more."""
        for key in [key for key in self._streams if key[0] == token]:
            del self._streams[key]

    def pieces(self, bytes_max: int, pieces_max: int) -> list[Piece]:
        """What to send next: output of older runs first, each stream in order."""
        found: list[Piece] = []
        room = bytes_max
        for (token, stream), made in sorted(self._streams.items()):
            for start, size, is_gap in made.pieces():
                if len(found) >= pieces_max or (not is_gap and size > room):
                    return found
                room -= 0 if is_gap else size
                found.append(Piece(token, stream, start, size, is_gap))
        return found

    def left(self, token: int) -> int:
        """Entries of output of a run that are left to send."""
        return sum(made.waiting()[0] for key, made in self._streams.items() if key[0] == token)

    def ends(self, token: int) -> dict[str, int]:
        """Bytes of each stream of a run, as far as they are known."""
        return {key[1]: made.end for key, made in self._streams.items() if key[0] == token}

    def gaps(self, token: int) -> dict[str, list[tuple[int, int]]]:
        return {
            key[1]: list(made.gaps)
            for key, made in self._streams.items()
            if key[0] == token and made.gaps
        }

    # -- bounds ------------------------------------------------------------------------------------

    @property
    def usage(self) -> AgentSpool:
        entries = len(self._results) + self.statuses
        size = sum(self._results.values()) if self._results else 0
        for made in self._streams.values():
            pieces, output_bytes = made.waiting()
            entries += pieces
            size += output_bytes
        return AgentSpool(entries, size)

    @property
    def is_full(self) -> bool:
        usage = self.usage
        return usage.entries >= self._entries_max or usage.bytes >= self._bytes_max

    def shed(self) -> list[Shed]:
        """Gives up output, oldest first, until the rest fits."""
        given_up: list[Shed] = []
        while (usage := self.usage).bytes > self._bytes_max or usage.entries > self._entries_max:
            oldest = self._oldest()
            if oldest is None:
                break
            given_up.append(oldest)
            self._streams[oldest.token, oldest.stream].drop(oldest.start, oldest.size)
        return _joined(given_up)

    def _oldest(self) -> Shed | None:
        """The first chunk that has data; with it, the gap before it becomes longer, so an entry goes too."""
        for (token, stream), made in sorted(self._streams.items()):
            for start, size, is_gap in made.pieces():
                if not is_gap:
                    return Shed(token, stream, start, size)
        return None


def _joined(parts: list[Shed]) -> list[Shed]:
    """Neighbours as one."""
    joined: list[Shed] = []
    for part in parts:
        last = joined[-1] if joined else None
        if last is not None and (last.token, last.stream, last.start + last.size) == (
            part.token,
            part.stream,
            part.start,
        ):
            joined[-1] = Shed(last.token, last.stream, last.start, last.size + part.size)
        else:
            joined.append(part)
    return joined
