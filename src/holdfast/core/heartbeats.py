"""The last heartbeats of a node, as one listener knows them.

Promises: an interval is the longest silence in it, so that a node which speaks often looks no better than it
is. Between the first and the last interval nothing is unknown: a listener that could have missed a heartbeat
begins again. Never: I/O; it decides nothing about a node.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec.structs import replace

INTERVALS_KEPT: Final = 24
SHORTEST: Final = 0.5
"""An interval ends with the first heartbeat after this share of the time that is expected between two."""


class Heartbeats(msgspec.Struct, frozen=True):
    """What is known about one node."""

    at: float
    """When the node was heard last."""
    opened: float
    """When the open interval began."""
    known_until: float
    """Until when no heartbeat is missing."""
    longest: float = 0.0
    """The longest silence in the open interval."""
    intervals: tuple[float, ...] = ()
    """The longest silence in each of the last intervals, in seconds, the oldest first."""


def heard(before: Heartbeats | None, at: float, expected_seconds: float) -> Heartbeats:
    """After a heartbeat that reached the listener itself."""
    if before is None:
        return Heartbeats(at, at, at)
    at = max(at, before.at)
    longest = max(before.longest, at - before.at)
    known_until = max(at, before.known_until)
    if at - before.opened < SHORTEST * expected_seconds:
        return replace(before, at=at, known_until=known_until, longest=longest)
    intervals = (*before.intervals, longest)[-INTERVALS_KEPT:]
    return Heartbeats(at, at, known_until, 0.0, intervals)


def looked(
    before: Heartbeats | None, seen_at: float, now: float, expected_seconds: float
) -> Heartbeats:
    """After a look at when the node was seen last. Looks that are farther apart than two heartbeats may have
    missed one between them."""
    if before is None:
        return Heartbeats(seen_at, seen_at, now)
    if seen_at <= before.at:
        return replace(before, known_until=max(now, before.known_until))
    if now - before.known_until > expected_seconds:
        return Heartbeats(seen_at, seen_at, now)
    return replace(heard(before, seen_at, expected_seconds), known_until=now)
