"""The rules of a client that watches the live feed.

A client keeps the position up to which it has everything. After any interruption it subscribes again from
there, at any gateway. Promises: no event is shown twice or skipped: a frame whose `prev` is not the frame
before it is a gap, and the client reconnects. A snapshot that was cut off is sent again from its first part.
A reset is shown, because the client must read the state again.
Never: I/O.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, Final, TypeGuard

import msgspec
from msgspec.structs import replace

from holdfast.core.close_codes import CloseAction
from holdfast.core.event import Position

BOOKMARK: Final = "bookmark"
NOT_EVENTS: Final = frozenset(
    {
        "hello",
        "subscribed",
        "unsubscribed",
        "authenticated",
        "snapshot",
        BOOKMARK,
        "reset",
        "error",
        "pong",
        "bye",
    }
)
"""Frames that are not events. A frame of another type with a position is an event."""


class Watching(msgspec.Struct, frozen=True):
    """The state of one subscription."""

    position: str | None = None
    """Everything up to here was received. None: nothing yet."""
    prev: str | None = None
    """The position of the last frame of the present connection. None: not subscribed."""
    is_live: bool = False
    """Whether the client has received everything that there was when it subscribed."""
    parts: int | None = None
    """The parts received of a snapshot that is not complete. None: no snapshot is under way."""


class WatchStep(Enum):
    """What the client does with a frame."""

    NOTHING = "nothing"
    SHOW = "show"
    """Give the frame to the caller: an event or a part of a snapshot."""
    START_OVER = "start over"
    """Show the reset, and subscribe with a snapshot."""
    RECONNECT = "reconnect"
    """A frame is missing: subscribe again from the position."""


def connected(state: Watching) -> Watching:
    """A new connection: the chain of frames starts again."""
    return Watching(state.position)


def received(state: Watching, frame: dict[str, Any]) -> tuple[Watching, WatchStep]:
    """The next state, and what to do with the frame."""
    kind = frame.get("type")
    position = frame.get("position")
    if kind == "subscribed":
        return _subscribed(state, frame)
    if kind == "snapshot":
        return _snapshot(state, frame)
    if kind == "reset":
        return Watching(), WatchStep.START_OVER
    is_chained = isinstance(kind, str) and (kind == BOOKMARK or kind not in NOT_EVENTS)
    if not is_chained or not isinstance(position, str):
        return state, WatchStep.NOTHING
    is_bookmark = kind == BOOKMARK
    is_next = frame.get("prev") == state.prev and _follows(state.prev, position, is_bookmark)
    if state.parts is not None or not is_next:
        return state, WatchStep.RECONNECT
    is_live = state.is_live or (is_bookmark and frame.get("live") is True)
    step = WatchStep.NOTHING if is_bookmark else WatchStep.SHOW
    return Watching(position, position, is_live), step


def _subscribed(state: Watching, frame: dict[str, Any]) -> tuple[Watching, WatchStep]:
    """With a snapshot nothing is complete before its last part. Otherwise the server must continue from the
    position that the client gave."""
    position = frame.get("position")
    if not _is_position(position) or state.prev is not None:
        return state, WatchStep.RECONNECT
    if state.position is None and frame.get("mode") == "snapshot":
        return Watching(None, position, False, 0), WatchStep.NOTHING
    if state.position is not None and not _is_same(state.position, position):
        return state, WatchStep.RECONNECT
    return Watching(position, position), WatchStep.NOTHING


def _snapshot(state: Watching, frame: dict[str, Any]) -> tuple[Watching, WatchStep]:
    part = frame.get("part")
    if state.parts is None or part != state.parts + 1 or frame.get("position") != state.prev:
        return state, WatchStep.RECONNECT
    if frame.get("last") is True:
        return Watching(state.prev, state.prev), WatchStep.SHOW
    return replace(state, parts=part), WatchStep.SHOW


def _is_position(text: object) -> TypeGuard[str]:
    try:
        return isinstance(text, str) and bool(Position.parse(text))
    except ValueError:
        return False


def _is_same(text: str, other: str) -> bool:
    return _is_position(text) and Position.parse(text) == Position.parse(other)


def _follows(prev: str | None, position: str, is_bookmark: bool) -> bool:
    """Whether a position comes after the last one. A bookmark may repeat it."""
    if prev is None or not _is_position(position):
        return False
    before, after = Position.parse(prev), Position.parse(position)
    at_least = before.offset if is_bookmark else before.offset + 1
    return before.epoch == after.epoch and after.offset >= at_least


def subscribe_frame(
    state: Watching, channel: str, *, snapshot: bool, kinds: tuple[str, ...] = ()
) -> dict[str, Any]:
    """The frame that starts the subscription, or continues it."""
    frame: dict[str, Any] = {"type": "subscribe", "channel": channel}
    if state.position is not None:
        frame["position"] = state.position
    elif not snapshot:
        frame["position"] = "now"
    if kinds:
        frame["kinds"] = list(kinds)
    return frame


_TRY_AGAIN: Final = frozenset({408, 425, 429})


def after_refusal(status: int) -> CloseAction:
    """What the client does when the connection is answered with an HTTP status."""
    if status == 401:
        return CloseAction.LOG_IN
    if status == 403:
        return CloseAction.FORBIDDEN
    is_permanent = 400 <= status < 500 and status not in _TRY_AGAIN
    return CloseAction.GIVE_UP if is_permanent else CloseAction.RECONNECT


BACKOFF_SECONDS: Final = 0.25
BACKOFF_SECONDS_MAX: Final = 30.0
RETRY_AFTER_SECONDS_MAX: Final = 300.0
"""A server may ask for a longer pause than the client would make, but not for any."""


def backoff_seconds(failures: int, jitter: float, retry_after_ms: object = None) -> float:
    """The pause before another connection: full jitter, unless the server named a time. `jitter` is in
    [0, 1)."""
    if isinstance(retry_after_ms, int | float) and retry_after_ms >= 0:
        return min(retry_after_ms / 1_000, RETRY_AFTER_SECONDS_MAX)
    return jitter * min(BACKOFF_SECONDS * 2.0 ** min(failures, 20), BACKOFF_SECONDS_MAX)
