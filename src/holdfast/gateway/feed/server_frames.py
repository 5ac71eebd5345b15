"""The frames that the feed sends. `/asyncapi.json` is made from these structs.

An event frame is put together from encoded parts (`frames.Style.event`); `EventFrame` is its shape.
"""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.core.event_kinds import EventClass
from holdfast.core.subscription import StreamReset


class _Frame(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", omit_defaults=True):
    pass


class FrameLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What a client has to keep to."""

    frame_bytes: int
    subscriptions: int
    buffer_bytes: int


class Hello(_Frame, frozen=True, kw_only=True, tag="hello"):
    """The first frame of a WebSocket."""

    protocol: str
    server: str
    gateway: str
    principal: str
    epoch: str
    head: str
    oldest: str
    ping_seconds: float
    limits: FrameLimits


class Subscribed(_Frame, frozen=True, kw_only=True, tag="subscribed"):
    """A subscription has begun; it goes on from the position."""

    id: str
    channel: str
    mode: str
    position: str


class Unsubscribed(_Frame, frozen=True, kw_only=True, tag="unsubscribed"):
    """A subscription has ended at the client's request."""

    id: str


class Authenticated(_Frame, frozen=True, kw_only=True, tag="authenticated"):
    """The connection has another credential."""

    principal: str


class Snapshot(_Frame, frozen=True, kw_only=True, tag="snapshot", omit_defaults=False):
    """A part of the state at a position, which was read before the data."""

    id: str
    position: str
    part: int
    last: bool
    payload: Any


class Bookmark(_Frame, frozen=True, kw_only=True, tag="bookmark"):
    """Nothing else happened up to the position. `live`: the replay has ended."""

    id: str
    position: str
    prev: str
    live: bool = False


class Reset(_Frame, frozen=True, kw_only=True, tag="reset"):
    """The subscription is over: subscribe again with a snapshot."""

    id: str
    reason: StreamReset
    position: str
    oldest: str


class Error(_Frame, frozen=True, kw_only=True, tag="error", omit_defaults=False):
    """A request was refused; the connection stays."""

    id: str | msgspec.UnsetType = msgspec.UNSET
    code: str
    detail: str
    retryable: bool


class Pong(_Frame, frozen=True, kw_only=True, tag="pong"):
    """The answer to a ping."""

    n: int
    head: str


class Bye(_Frame, frozen=True, kw_only=True, tag="bye"):
    """The server closes the connection."""

    reason: str
    code: int
    retry_after_ms: int | None = None


class EventFrame(msgspec.Struct, frozen=True, kw_only=True):
    """An event. `type` is the frame name of its kind."""

    type: str
    id: str
    channel: str
    prev: str
    """The position of the frame before it in this subscription."""
    position: str
    at: str
    event_class: EventClass = msgspec.field(name="class")
    kind: str
    version: int
    payload: dict[str, Any]
    merged: int | msgspec.UnsetType = msgspec.UNSET
    """How many events this frame stands for, if more than one."""


ServerFrame = (
    Hello
    | Subscribed
    | Unsubscribed
    | Authenticated
    | Snapshot
    | Bookmark
    | Reset
    | Error
    | Pong
    | Bye
)
