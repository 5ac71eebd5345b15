"""Errors of the key-value store. See `holdfast.errors` for the rest of the tree."""

from __future__ import annotations

from holdfast.errors import Conflict, InvalidInput

__all__ = [
    "BadCommand",
    "NotAFloat",
    "NotAnInteger",
    "NotText",
    "Overflow",
    "WatchFailed",
    "WrongType",
]


class BadCommand(InvalidInput):
    """Redis refuses the command as it is written."""

    code = "bad-command"


class NotAnInteger(BadCommand):
    """A number, or the value of a counter, is not a 64-bit integer."""

    code = "not-an-integer"


class NotAFloat(BadCommand):
    """A number, or the value of a counter, is not a float."""

    code = "not-a-float"


class Overflow(BadCommand):
    """A counter would exceed 64 bits."""

    code = "overflow"
    grpc_status = "OUT_OF_RANGE"


class NotText(BadCommand):
    """A key or value is not text, or cannot be encoded as UTF-8."""

    code = "not-text"


class WrongType(Conflict):
    """The key holds another kind of value."""

    code = "wrong-type"
    grpc_status = "FAILED_PRECONDITION"


class WatchFailed(Conflict):
    """A watched key changed before the transaction ended."""

    code = "watch-failed"
    retryable = True
