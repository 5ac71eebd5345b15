"""The frames that a client sends.

Promises: what is not a frame is `NotAFrame`; a frame with a wrong or unknown field is InvalidInput with the
name of the field.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import msgspec

from holdfast.core.check import shown
from holdfast.core.event_kinds import EventClass
from holdfast.errors import InvalidInput
from holdfast.gateway.invalid import invalid

FRAME_BYTES_MAX: Final = 65_536
PING_SECONDS: Final = 20.0
KINDS_MAX: Final = 50


class NotAFrame(Exception):
    """The connection does not speak the protocol."""


class _Frame(msgspec.Struct, frozen=True, tag_field="type", forbid_unknown_fields=True):
    pass


class Subscribe(_Frame, frozen=True, tag="subscribe"):
    """Starts a subscription."""

    channel: str | None = None
    query: str | None = None
    id: str | None = None
    position: str | None = None
    snapshot: bool | None = None
    kinds: list[str] = []
    classes: list[EventClass] = []
    max_delay_ms: int | None = None


class Unsubscribe(_Frame, frozen=True, tag="unsubscribe"):
    """Ends a subscription."""

    id: str


class Auth(_Frame, frozen=True, tag="auth"):
    """Replaces the credential of the connection."""

    token: str


class Ping(_Frame, frozen=True, tag="ping"):
    """Asks for a `pong` with the head of the feed."""

    n: int = 0


Request: TypeAlias = Subscribe | Unsubscribe | Auth | Ping
_KINDS: Final[dict[str, type[Request]]] = {
    "auth": Auth,
    "ping": Ping,
    "subscribe": Subscribe,
    "unsubscribe": Unsubscribe,
}


def parse(text: str | bytes) -> Request:
    """The frame in a message."""
    try:
        fields: Any = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise NotAFrame(f"the message is not JSON: {error}") from None
    if not isinstance(fields, dict) or not isinstance(fields.get("type"), str):
        raise NotAFrame("the message is not an object with a type")
    kind = _KINDS.get(fields["type"])
    if kind is None:
        raise InvalidInput(
            f"the frame is not valid: there is no type {shown(fields['type'])}: use one of "
            + ", ".join(_KINDS)
        )
    try:
        return msgspec.convert(fields, kind)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"the frame is not valid: {invalid(error, kind)}") from None
