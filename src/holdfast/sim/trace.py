"""What happened in a run: a hash that proves it was the same, counters that prove it was not empty.

Promises: the hash covers every message, every crash and every change of a row, in order. Never: grows
without bound; the readable part is the newest `LINES_MAX` lines.
"""

from __future__ import annotations

import hashlib
from collections import Counter, deque
from collections.abc import Callable
from typing import Final, NamedTuple

LINES_MAX: Final = 5_000


class Line(NamedTuple):
    """One moment of one node, for people."""

    at: float
    node: str
    text: str


class Trace:
    """The record of one run."""

    def __init__(self, time: Callable[[], float]) -> None:
        self._time = time
        self._hash = hashlib.sha256()
        self.lines: deque[Line] = deque(maxlen=LINES_MAX)
        self.messages: deque[Line] = deque(maxlen=LINES_MAX)
        """What befell messages; many, and shown only beside what was broken."""
        self.seen: Counter[str] = Counter()
        """How often each kind of fault, and each way of recovery, was met."""

    def note(self, node: str, text: str) -> None:
        """Something worth a line."""
        at = self._time()
        self._hash.update(f"{at!r} {node} {text}\n".encode())
        self.lines.append(Line(at, node, text))

    def step(self, text: str) -> None:
        """Something that counts for the hash only."""
        self._hash.update(f"{self._time()!r} {text}\n".encode())

    def sometimes(self, kind: str, what: str = "") -> None:
        """A kind of fault or recovery that a campaign must meet."""
        self.seen[kind] += 1
        self.step(f"{kind} {what}")

    def message(self, kind: str, source: str, target: str, what: str) -> None:
        """A message that met a fault on its way."""
        self.sometimes(kind, what)
        text = f"{kind} {what.partition(' ')[0]} > {target}"
        self.messages.append(Line(self._time(), source, text))

    def hash(self) -> str:
        return self._hash.hexdigest()
