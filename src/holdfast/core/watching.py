"""The rules of a client that watches the live feed.

A client keeps the position up to which it has everything. After any interruption it subscribes again from
there, at any gateway. Promises: no event is shown twice or skipped: a frame whose `prev` is not the frame
before it is a gap, and the client reconnects. A reset is shown, because the client must read the state again.
Never: I/O.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from holdfast.core.event import Position

CHAINED: Final = "bookmark"
NOT_EVENTS: Final = frozenset(
    {"hello", "subscribed", "snapshot", "bookmark", "reset", "error", "pong", "bye"}
)
"""Frames that are not events. Frames of other types are events, or unknown to this client."""


class Watching(msgspec.Struct, frozen=True):
    """The state of one subscription."""

    position: str | None = None
    """Everything up to here was received. None: nothing yet."""
    prev: str | None = None
    """The position of the last frame of the present connection. None: not subscribed."""


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
    return replace(state, prev=None)


def received(state: Watching, frame: dict[str, Any]) -> tuple[Watching, WatchStep]:
    """The next state, and what to do with the frame."""
    kind = frame.get("type")
    position = frame.get("position")
    if kind == "subscribed" and isinstance(position, str):
        return Watching(position, position), WatchStep.NOTHING
    if kind == "snapshot":
        return state, WatchStep.SHOW
    if kind == "reset":
        return Watching(), WatchStep.START_OVER
    if (kind in NOT_EVENTS and kind != CHAINED) or not isinstance(position, str):
        return state, WatchStep.NOTHING
    if frame.get("prev") != state.prev or not _follows(state.prev, position, kind == CHAINED):
        return state, WatchStep.RECONNECT
    step = WatchStep.NOTHING if kind == CHAINED else WatchStep.SHOW
    return Watching(position, position), step


def _follows(prev: str | None, position: str, is_bookmark: bool) -> bool:
    """Whether a position comes after the last one. A bookmark may repeat it."""
    if prev is None:
        return False
    try:
        before, after = Position.parse(prev), Position.parse(position)
    except ValueError:
        return False
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


class CloseAction(Enum):
    """What the client does after the connection ended."""

    RECONNECT = "reconnect"
    LOG_IN = "log in"
    """The token is bad, expired or revoked."""
    GIVE_UP = "give up"
    """The server will not accept this client."""


_CLOSES: Final[dict[int, CloseAction]] = {
    4400: CloseAction.GIVE_UP,
    4413: CloseAction.GIVE_UP,
    4401: CloseAction.LOG_IN,
    4403: CloseAction.GIVE_UP,
    4409: CloseAction.GIVE_UP,
}


def after_close(code: int | None) -> CloseAction:
    """Every code that is not listed is an interruption."""
    return CloseAction.RECONNECT if code is None else _CLOSES.get(code, CloseAction.RECONNECT)


BACKOFF_SECONDS: Final = 0.25
BACKOFF_SECONDS_MAX: Final = 30.0


def backoff_seconds(failures: int, jitter: float, retry_after_ms: object = None) -> float:
    """The pause before another connection: full jitter, unless the server named a time. `jitter` is in
    [0, 1)."""
    if isinstance(retry_after_ms, int | float) and retry_after_ms >= 0:
        return min(retry_after_ms / 1_000, BACKOFF_SECONDS_MAX)
    return jitter * min(BACKOFF_SECONDS * 2.0 ** min(failures, 20), BACKOFF_SECONDS_MAX)
