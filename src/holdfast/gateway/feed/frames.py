"""Frames of the feed as bytes: JSON, and how it is wrapped for a transport.

Promises: a frame is one JSON object; SSE and WebSocket carry the same objects.
"""

from __future__ import annotations

from typing import Final, Protocol

import msgspec

from holdfast.core.event import Position
from holdfast.core.subscription import StreamReset
from holdfast.gateway.feed.entries import Entry
from holdfast.gateway.feed.server_frames import (
    Bookmark,
    Reset,
    ServerFrame,
    Snapshot,
    Subscribed,
)

encode: Final = msgspec.json.Encoder().encode
_TEXT: Final = 0x81
_SHORT: Final = 126
_LONG: Final = 65_536


class Wrapping(Protocol):
    """How one frame travels."""

    def __call__(self, frame: str, position: str, data: bytes) -> bytes: ...


def as_text_frame(frame: str, position: str, data: bytes) -> bytes:
    """An unmasked text frame of a WebSocket (RFC 6455)."""
    del frame, position
    size = len(data)
    if size < _SHORT:
        return bytes((_TEXT, size)) + data
    if size < _LONG:
        return b"\x81\x7e" + size.to_bytes(2, "big") + data
    return b"\x81\x7f" + size.to_bytes(8, "big") + data


def as_message(frame: str, position: str, data: bytes) -> bytes:
    """The JSON as a line, for servers that frame the messages themselves. JSON has no line break."""
    del frame, position
    return data + b"\n"


def as_server_sent_event(frame: str, position: str, data: bytes) -> bytes:
    """A frame without a position does not change the client's last event id."""
    head = f"id: {position}\n" if position else ""
    return f"{head}event: {frame}\ndata: ".encode() + data + b"\n\n"


class Style:
    """How the frames of a group of subscriptions look: their name, channel and wrapping."""

    __slots__ = ("_middle", "channel", "epoch", "id", "wrap")

    def __init__(self, id: str, channel: str, epoch: str, wrap: Wrapping) -> None:
        self.id = id
        self.channel = channel
        self.epoch = epoch
        self.wrap = wrap
        self._middle = (
            b'","id":'
            + encode(id)
            + b',"channel":'
            + encode(channel)
            + b',"prev":"'
            + epoch.encode()
            + b":"
        )

    def event(self, entry: Entry, prev: int) -> bytes:
        data = b'{"type":"%b%b%d"%b' % (entry.frame.encode(), self._middle, prev, entry.body)
        return self.wrap(entry.frame, f"{self.epoch}:{entry.offset}", data)

    def bookmark(self, offset: int, prev: int, *, live: bool = False) -> bytes:
        position = f"{self.epoch}:{offset}"
        frame = Bookmark(id=self.id, position=position, prev=f"{self.epoch}:{prev}", live=live)
        return self.wrap("bookmark", position, encode(frame))

    def subscribed(self, mode: str, offset: int) -> bytes:
        position = f"{self.epoch}:{offset}"
        return wrapped(
            self.wrap, Subscribed(id=self.id, channel=self.channel, mode=mode, position=position)
        )

    def snapshot(self, offset: int, part: int, payload: object, *, last: bool) -> bytes:
        position = f"{self.epoch}:{offset}"
        frame = Snapshot(id=self.id, position=position, part=part, last=last, payload=payload)
        return wrapped(self.wrap, frame)

    def reset(self, reason: StreamReset, head: Position, oldest: Position) -> bytes:
        frame = Reset(id=self.id, reason=reason, position=str(head), oldest=str(oldest))
        return wrapped(self.wrap, frame)


def wrapped(wrap: Wrapping, frame: ServerFrame) -> bytes:
    """A frame that is not part of the chain of positions."""
    return wrap(str(frame.__struct_config__.tag), "", encode(frame))
