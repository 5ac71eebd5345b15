"""Turns error replies of Redis into errors of Holdfast.

Promises: the same text gives the same error, from the memory backend or a live server, inside a script or
not. Never: an error class of a client library.
"""

from __future__ import annotations

import re
from typing import Final

from holdfast.errors import BadConfig, HoldfastError, StoreBusy, StoreUnavailable
from holdfast.primitives.kv._op import Words
from holdfast.primitives.kv.errors import BadCommand, NotAFloat, NotAnInteger, Overflow, WrongType

WRONG_TYPE: Final = "WRONGTYPE Operation against a key holding the wrong kind of value"
NOT_AN_INTEGER: Final = "value is not an integer or out of range"
NOT_A_FLOAT: Final = "value is not a valid float"
BOUND_NOT_A_FLOAT: Final = "min or max is not a float"
WOULD_OVERFLOW: Final = "increment or decrement would overflow"
SYNTAX: Final = "syntax error"
TIMEOUT_NOT_AN_INTEGER: Final = "timeout is not an integer or out of range"
TIMEOUT_NEGATIVE: Final = "timeout is negative"
INVALID_CURSOR: Final = "invalid cursor"
NOT_POSITIVE: Final = "value is out of range, must be positive"
BAD_STREAM_ID: Final = "Invalid stream ID specified as stream command argument"
STREAM_ID_ZERO: Final = "The ID specified in XADD must be greater than 0-0"
STREAM_ID_OLD: Final = (
    "The ID specified in XADD is equal or smaller than the target stream top item"
)
STREAM_FULL: Final = "The stream has exhausted the last possible ID, unable to add more items"

_SCRIPT: Final = re.compile(r" script: (?:[0-9a-f]{40}, )?on @user_script:\d+\.$")

_MEANINGS: Final[tuple[tuple[str, type[HoldfastError]], ...]] = (
    ("WRONGTYPE", WrongType),
    (NOT_AN_INTEGER, NotAnInteger),
    ("hash value is not an integer", NotAnInteger),
    (NOT_A_FLOAT, NotAFloat),
    (BOUND_NOT_A_FLOAT, NotAFloat),
    (WOULD_OVERFLOW, Overflow),
    ("decrement would overflow", Overflow),
    ("BUSY", StoreBusy),
    ("LOADING", StoreUnavailable),
    ("MASTERDOWN", StoreUnavailable),
    ("CLUSTERDOWN", StoreUnavailable),
    ("TRYAGAIN", StoreUnavailable),
    ("NOREPLICAS", StoreUnavailable),
    ("READONLY", StoreUnavailable),
    ("MISCONF", StoreUnavailable),
    ("OOM", StoreUnavailable),
    ("NOAUTH", BadConfig),
    ("WRONGPASS", BadConfig),
    ("NOPERM", BadConfig),
    ("MOVED", BadConfig),
    ("ASK", BadConfig),
    ("CROSSSLOT", BadConfig),
)


class Refused(Exception):
    """Inside the memory backend: the error reply that Redis would have sent."""


def wrong_arity(command: str) -> str:
    return f"wrong number of arguments for '{command.lower()}' command"


def bad_expiry(command: str) -> str:
    return f"invalid expire time in '{command.lower()}' command"


def problem(text: str, words: Words) -> HoldfastError:
    """The error for an error reply such as `WRONGTYPE Operation against ...`."""
    text = _SCRIPT.sub("", text)
    key = words[3:4] if words[0] == "EVAL" else words[1:2]
    what = " ".join((words[0], *map(repr, key)))
    for start, kind in _MEANINGS:
        if text.startswith(start):
            return kind(f"{what}: {text}")
    return BadCommand(f"{what}: {text}")
