"""Which nodes were left in peace, and since when: a law about speed only holds where nothing was broken.

Promises: whatever keeps a node from its store is noted with the moment from which it must not be felt any
more: a message of a call that was lost, late or stuck, a refusal of the store, a stopped process, a clock
that was set. A hint that was lost is noted apart: it may cost a poll, no more.
"""

from __future__ import annotations

from typing import Final

HINT: Final = "hint"
UNREST_SECONDS: Final = 30.0
"""After a disturbance: two calls without an answer, and the longest pause of a loop after them."""
WAKE_SECONDS: Final = 5.0
"""In which a node that goes on after a stop has asked its store for something."""
START_SECONDS: Final = 2.0
"""After the start of a process."""


class Calm:
    """The moments from which on nodes are in peace."""

    def __init__(self) -> None:
        self._calls: dict[str, float] = {}
        self._hints: dict[str, float] = {}
        self._messages: dict[str, float] = {}
        self._all = 0.0
        self._clocks = 0.0
        self._jumps = (float("-inf"), float("-inf"))
        """The last two that went forward."""
        self._begun: dict[str, float] = {}
        self._stood: dict[str, tuple[float, float]] = {}
        """When each node last stood still, and until when."""

    def harmed(self, source: str, target: str, what: str, until: float) -> None:
        """A message did not arrive as it should."""
        if what == HINT:
            self._hints[target] = max(until, self._hints.get(target, 0.0))
        else:
            for node in (source, target):
                self.disturb(node, until)
                self._messages[node] = max(until + UNREST_SECONDS, self._messages.get(node, 0.0))

    def disturb(self, node: str, until: float) -> None:
        self._calls[node] = max(until + UNREST_SECONDS, self._calls.get(node, 0.0))

    def disturb_all(self, until: float) -> None:
        self._all = max(until + UNREST_SECONDS, self._all)

    def set_clock(self, now: float, by: float) -> None:
        """The database's clock was set, or a node's."""
        if by > 0.0:
            self._jumps = (self._jumps[1], now)
        self._clocks = now + UNREST_SECONDS

    def begin(self, node: str, now: float) -> None:
        """A new process: what befell the one before is none of its business."""
        self._calls[node] = now + START_SECONDS
        self._begun[node] = now

    def since(self, node: str) -> float:
        """From when on a node is in peace."""
        return max(self._clocks, self.reached_since(node))

    def stand_still(self, node: str, now: float, until: float) -> None:
        """The process of a node is stopped, or its machine is suspended."""
        self.disturb(node, until)
        self._stood[node] = (now, until)

    def go_on(self, now: float) -> None:
        """All nodes run again."""
        self._stood = {node: (at, min(until, now)) for node, (at, until) in self._stood.items()}

    def clock_since(self, node: str) -> float:
        """From when on a node has a good reading of the store's clock. One that stood still while the clock
        was set learns of it with its first call."""
        stopped_at, resumed_at = self._stood.get(node, (0.0, 0.0))
        missed_it = stopped_at <= self._clocks - UNREST_SECONDS <= resumed_at
        since = max(self._clocks, self._messages.get(node, 0.0))
        return max(since, resumed_at + WAKE_SECONDS) if missed_it else since

    def knows_the_time(self, node: str, now: float) -> bool:
        """Whether a node has seen the clock before it was set, or it was set long ago: one that has just
        started cannot tell a jump from the time for which it was not there. After two jumps in a row nobody
        waits for a third."""
        before_last, last = self._jumps
        if last - before_last < UNREST_SECONDS and now - last < UNREST_SECONDS:
            return False
        set_at = self._clocks - UNREST_SECONDS
        return now > self._clocks or self._begun.get(node, 0.0) < set_at

    def reached_since(self, node: str) -> float:
        """From when on a node is in peace, whatever clocks say."""
        return max(self._all, self._calls.get(node, 0.0))

    def heard_since(self, node: str) -> float:
        """When the last hint to a node was lost or late."""
        return self._hints.get(node, 0.0)
