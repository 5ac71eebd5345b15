"""Tracks until when faults disturb each node: laws about speed hold for undisturbed nodes only.

Promises: records the end of the effect of everything that keeps a node from its store: a lost, late or
stuck message of a call, a refusal of the store, a stopped process, a clock that was set. A lost hint is
recorded separately: it may delay work until the next poll, no more.
"""

from __future__ import annotations

from typing import Final

HINT: Final = "hint"
UNREST_SECONDS: Final = 30.0
"""Effect of a disturbance: two calls that time out, and the longest pause of a loop after them."""
WAKE_SECONDS: Final = 5.0
"""Time within which a node that runs again has called its store."""
START_SECONDS: Final = 2.0
"""Time that a process needs to start."""


class Disturbances:
    """End of the effect of faults, by node."""

    def __init__(self) -> None:
        self.calls: dict[str, float] = {}
        """Until when calls of each node are disturbed."""
        self._hints: dict[str, float] = {}
        self._messages: dict[str, float] = {}
        self._all = 0.0
        self._clocks = 0.0
        self._jumps = (float("-inf"), float("-inf"))
        """The last two times at which a clock was set forward."""
        self._started_at: dict[str, float] = {}
        self._stopped: dict[str, tuple[float, float]] = {}
        """When each node was last stopped, and until when."""

    def harmed(self, source: str, target: str, what: str, until: float) -> None:
        """A message was lost or late."""
        if what == HINT:
            self._hints[target] = max(until, self._hints.get(target, 0.0))
        else:
            for node in (source, target):
                self.disturb(node, until)
                self._messages[node] = max(until + UNREST_SECONDS, self._messages.get(node, 0.0))

    def disturb(self, node: str, until: float) -> None:
        self.calls[node] = max(until + UNREST_SECONDS, self.calls.get(node, 0.0))

    def disturb_all(self, until: float) -> None:
        self._all = max(until + UNREST_SECONDS, self._all)

    def set_clock(self, now: float, by: float) -> None:
        """The clock of the database or of a node was set."""
        if by > 0.0:
            self._jumps = (self._jumps[1], now)
        self._clocks = now + UNREST_SECONDS

    def begin(self, node: str, now: float) -> None:
        """A new process starts: disturbances of the one before do not count."""
        self.calls[node] = now + START_SECONDS
        self._started_at[node] = now

    def since(self, node: str) -> float:
        """The time since which a node is undisturbed."""
        return max(self._clocks, self._all, self.calls.get(node, 0.0))

    def all_since(self) -> float:
        """The same for a node that nothing disturbs alone: see `calls`."""
        return max(self._clocks, self._all)

    def stop(self, node: str, now: float, until: float) -> None:
        """The process of a node is stopped, or its machine is suspended."""
        self.disturb(node, until)
        self._stopped[node] = (now, until)

    def resume_all(self, now: float) -> None:
        """All stopped nodes run again."""
        stopped = self._stopped.items()
        self._stopped = {node: (at, min(until, now)) for node, (at, until) in stopped}

    def clock_since(self, node: str) -> float:
        """The time since which a node has a correct reading of store time. A node that was stopped while
        the clock was set, or before it had read it again, corrects its reading with its first call."""
        stopped_at, resumed_at = self._stopped.get(node, (0.0, 0.0))
        missed_step = stopped_at <= self._clocks and self._clocks - UNREST_SECONDS <= resumed_at
        since = max(self._clocks, self._messages.get(node, 0.0))
        return max(since, resumed_at + WAKE_SECONDS) if missed_step else since

    def knows_the_time(self, node: str, now: float) -> bool:
        """Whether a node can detect a clock jump: it read the clock before it was set, or the clock was set
        long ago. A node that has just started cannot tell a jump from its downtime. Two jumps in a row are
        not covered."""
        before_last, last = self._jumps
        if last - before_last < UNREST_SECONDS and now - last < UNREST_SECONDS:
            return False
        set_at = self._clocks - UNREST_SECONDS
        return now > self._clocks or self._started_at.get(node, 0.0) < set_at

    def reached_since(self, node: str) -> float:
        """The time since which a node is undisturbed, apart from clocks."""
        return max(self._all, self.calls.get(node, 0.0))

    def heard_since(self, node: str) -> float:
        """The time at which the last hint to a node was lost or late."""
        return self._hints.get(node, 0.0)
