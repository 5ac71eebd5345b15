"""The frames of a stream in one answer, for clients behind a proxy that passes no stream.

Promises: the same frames as by WebSocket, from the same position, in the same order. An answer ends behind a
whole snapshot, never within one. It comes as soon as there is an event and the client has all that there is,
or after `wait_seconds`, or when it is full.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from starlette.requests import Request

from holdfast.core.access import Denied
from holdfast.errors import InvalidInput
from holdfast.gateway.feed.connection import POLL
from holdfast.gateway.feed.feed import LiveFeed
from holdfast.gateway.feed.frames import as_message
from holdfast.gateway.feed.outlets import QueueOutlet
from holdfast.gateway.feed.ports import Session
from holdfast.gateway.feed.sse import StreamFull, wish_of
from holdfast.gateway.feed.subscribing import subscribe

WAIT: Final = "wait_seconds"
WAIT_SECONDS_MAX: Final = 30.0
POLL_BYTES: Final = 1_048_576
"""Bytes of frames after which an answer ends."""
SNAPSHOT_SECONDS: Final = 30.0
"""How long an answer waits for the rest of a snapshot."""
_BESIDE: Final = frozenset({"subscribed", "bookmark"})
"""Frames that are no news."""


class _Head(msgspec.Struct, frozen=True):
    type: str
    mode: str = ""
    last: bool = False
    live: bool = False


_head: Final = msgspec.json.Decoder(_Head)


class _Answer:
    """The frames that were received, and whether the answer may end here."""

    def __init__(self) -> None:
        self.frames: list[msgspec.Raw] = []
        self.size = 0
        self._has_news = False
        self._is_live = False
        self.is_whole = True

    def add(self, line: bytes) -> None:
        head = _head.decode(line)
        self.frames.append(msgspec.Raw(line))
        self.size += len(line)
        self._has_news |= head.type not in _BESIDE
        self._is_live |= head.live
        if head.type == "subscribed":
            self.is_whole = head.mode != "snapshot"
        elif head.type in ("snapshot", "reset", "error"):
            self.is_whole = head.last or head.type != "snapshot"

    @property
    def is_complete(self) -> bool:
        is_full = self.size >= POLL_BYTES
        return self.is_whole and self._has_news and (self._is_live or is_full)


async def poll_frames(
    feed: LiveFeed, request: Request, session: Session
) -> dict[str, Any] | Denied:
    """`GET /api/v1/poll`. Raises InvalidInput and StreamFull. Closes the session."""
    try:
        if feed.is_full():
            raise StreamFull
        wish = wish_of(request, frozenset({WAIT}))
        seconds = _number(request, WAIT, 0)
    except BaseException:
        session.close()
        raise
    connection, outlet = feed.queued(session, as_message, POLL)
    connection.open()
    try:
        denied = await subscribe(connection, wish)
        if denied is not None:
            return denied
        return {"frames": await _collected(feed, outlet, min(seconds, WAIT_SECONDS_MAX))}
    finally:
        await connection.shut()


async def _collected(feed: LiveFeed, outlet: QueueOutlet, seconds: float) -> list[msgspec.Raw]:
    clock = feed.broadcaster.clock
    begun = clock.monotonic()
    answer = _Answer()
    while not answer.is_complete:
        passed = clock.monotonic() - begun
        left = (seconds if answer.is_whole else seconds + SNAPSHOT_SECONDS) - passed
        if left <= 0.0 and answer.frames:
            break
        parts = await outlet.take(clock, max(left, 0.0))
        if parts is None:
            break
        for line in b"".join(parts).splitlines():
            answer.add(line)
    return answer.frames


def _number(request: Request, name: str, default: int) -> int:
    text = request.query_params.get(name, "")
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise InvalidInput(f"{name} is '{text[:20]}': give a whole number")
    return int(text)
