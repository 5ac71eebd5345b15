"""The errors of the key-value store. See `holdfast.errors` for the rest of the tree."""

from __future__ import annotations

from holdfast.errors import Conflict, InvalidInput


class BadCommand(InvalidInput):
    """A command to the key-value store that Redis refuses as it is written."""

    code = "bad-command"


class NotAnInteger(BadCommand):
    """A number, or the value to count with, is not an integer of 64 bits."""

    code = "not-an-integer"


class NotAFloat(BadCommand):
    """A number, or the value to count with, is not a float."""

    code = "not-a-float"


class Overflow(BadCommand):
    """A counter would leave 64 bits."""

    code = "overflow"
    grpc_status = "OUT_OF_RANGE"


class NotText(BadCommand):
    """A word that is not text, or that UTF-8 cannot carry."""

    code = "not-text"


class WrongType(Conflict):
    """The key holds another kind of value."""

    code = "wrong-type"
    grpc_status = "FAILED_PRECONDITION"


class WatchFailed(Conflict):
    """A watched key changed before the transaction ended."""

    code = "watch-failed"
    retryable = True
