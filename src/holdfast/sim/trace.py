"""The trace of a run: a hash to compare runs, and counters of the faults and recoveries that occurred.

Promises: the hash covers every message, crash and row change, in order. Never: grows without bound; the
readable part holds the newest `LINES_MAX` lines.
"""

from __future__ import annotations

import hashlib
from collections import Counter, deque
from collections.abc import Callable
from typing import Final, NamedTuple

LINES_MAX: Final = 5_000


class Line(NamedTuple):
    """One readable entry: when, at which node, what."""

    at: float
    node: str
    text: str


class Trace:
    """The trace of one run."""

    def __init__(self, time: Callable[[], float]) -> None:
        self._time = time
        self._hash = hashlib.sha256()
        self.lines: deque[Line] = deque(maxlen=LINES_MAX)
        self.messages: deque[Line] = deque(maxlen=LINES_MAX)
        """Faults of messages. There are many; a timeline shows only those close to a failure."""
        self.counts: Counter[str] = Counter()
        """Occurrences of each kind of fault and recovery."""

    def note(self, node: str, text: str) -> None:
        """Adds a readable line."""
        at = self._time()
        self._hash.update(f"{at!r} {node} {text}\n".encode())
        self.lines.append(Line(at, node, text))

    def step(self, text: str) -> None:
        """Adds to the hash only."""
        self._hash.update(f"{self._time()!r} {text}\n".encode())

    def sometimes(self, kind: str, what: str = "") -> None:
        """Counts a kind of fault or recovery that a campaign must reach."""
        self.counts[kind] += 1
        self.step(f"{kind} {what}")

    def message(self, kind: str, source: str, target: str, what: str) -> None:
        """Records a fault of a message."""
        self.sometimes(kind, what)
        text = f"{kind} {what.partition(' ')[0]} > {target}"
        self.messages.append(Line(self._time(), source, text))

    def hash(self) -> str:
        return self._hash.hexdigest()
