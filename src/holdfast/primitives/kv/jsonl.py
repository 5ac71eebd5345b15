"""Canonical JSON for values: sorted keys, no blanks, so that equal values are equal text.

Promises: the same text in every process; one line for each value (`dumps_line`), as JSONL wants it.
Never: NaN, pickles, keys that are not text.
"""

from __future__ import annotations

from holdfast.core import codec
from holdfast.core.codec import Json
from holdfast.errors import UnserialisablePayload


def dumps(value: object) -> str:
    """The one text of a value."""
    try:
        return codec.dumps(value)
    except (TypeError, ValueError) as error:
        raise UnserialisablePayload(f"not a value of JSON: {error}") from error


def dumps_line(value: object) -> str:
    """The same with a line end: a record of a JSONL file."""
    return f"{dumps(value)}\n"


def loads(text: str | bytes) -> Json:
    """The value of a text; a line end after it does not matter."""
    try:
        return codec.loads(text)
    except ValueError as error:
        raise UnserialisablePayload(f"not a text of JSON: {error}") from error
