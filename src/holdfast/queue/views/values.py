"""Values in JSON: times are RFC 3339 in UTC with milliseconds, objects are the structs of `client.models`."""

from __future__ import annotations

from datetime import datetime
from typing import Any, TypeVar

import msgspec

from holdfast.core.wire import time_text

View = dict[str, Any]
T = TypeVar("T")


def shown(shape: msgspec.Struct) -> View:
    """The JSON object of a shape, with all its fields."""
    view: View = msgspec.to_builtins(shape)
    return view


def parsed(view: View, shape: type[T]) -> T:
    """The shape of a JSON object. Fields that this version does not know are ignored."""
    return msgspec.convert(view, shape)


def at(when: float | None) -> str | None:
    """A time as text; None stays None."""
    return None if when is None else time_text(max(0.0, when))


def time_of(text: str | None) -> float | None:
    """Epoch seconds of a time as text; None stays None."""
    return None if text is None else datetime.fromisoformat(text).timestamp()


def known_time(text: str | None) -> float:
    """Epoch seconds of a time that is always given."""
    return time_of(text) or 0.0


def remaining(until: float | None, now: float) -> float | None:
    """Seconds until a time, at least 0; None for never."""
    return None if until is None else round(max(0.0, until - now), 3)
