"""Canonical JSON: sorted keys, no whitespace, so that equal values have equal text.

Promises: the same text in every process; one line per value (`dumps_line`), as in JSONL.
Never: NaN, pickles, keys that are not text.
"""

from __future__ import annotations

from holdfast.core import codec
from holdfast.core.codec import Json
from holdfast.errors import UnserialisablePayload


def dumps(value: object) -> str:
    """The canonical text of a value."""
    try:
        return codec.dumps(value)
    except (TypeError, ValueError) as error:
        raise UnserialisablePayload(f"cannot be written as JSON: {error}") from error


def dumps_line(value: object) -> str:
    """The same with a newline: a record of a JSONL file."""
    return f"{dumps(value)}\n"


def loads(text: str | bytes) -> Json:
    """Parses a text. A trailing newline is allowed."""
    try:
        return codec.loads(text)
    except ValueError as error:
        raise UnserialisablePayload(f"not valid JSON: {error}") from error
