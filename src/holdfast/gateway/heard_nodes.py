"""The heartbeats of nodes and the skew of their clocks, as this gateway hears them.

Promises: bounded, in memory only; a heartbeat costs no write and no read. Remote workers, offline nodes and
agents are heard themselves. Of the other nodes a reader of the rows says when they were seen.
Never: decides anything; a node that speaks to another gateway is silent here.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final, TypeVar

from holdfast.core.heartbeats import Heartbeats, heard, looked

T = TypeVar("T")
NODES_MAX: Final = 10_000
"""Nodes that a gateway remembers: those that were heard last."""


class HeardNodes:
    """What one gateway has heard of nodes."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._known: OrderedDict[str, Heartbeats] = OrderedDict()
        self._skews: OrderedDict[str, float] = OrderedDict()

    def heard(self, node: str, expected_seconds: float) -> None:
        """A heartbeat of the node has reached this gateway."""
        _keep(self._known, node, heard(self._known.get(node), self._now(), expected_seconds))

    def looked(self, node: str, seen_at: float, expected_seconds: float) -> None:
        """The row of the node says when it was seen."""
        known = looked(self._known.get(node), seen_at, self._now(), expected_seconds)
        _keep(self._known, node, known)

    def says_time(self, node: str, sent_at: float) -> None:
        """A message of the node names the time of its clock."""
        _keep(self._skews, node, sent_at - self._now())

    def intervals(self, node: str) -> list[float] | None:
        """The longest silence of each of its last intervals, the oldest first. None: not heard here."""
        known = self._known.get(node)
        return None if known is None else [round(seconds, 2) for seconds in known.intervals]

    def skew_seconds(self, node: str) -> float | None:
        """How far its clock is ahead, with the way of the message. None: it named no time here."""
        return self._skews.get(node)


def _keep(kept: OrderedDict[str, T], node: str, value: T) -> None:
    kept[node] = value
    kept.move_to_end(node)
    if len(kept) > NODES_MAX:
        kept.popitem(last=False)
