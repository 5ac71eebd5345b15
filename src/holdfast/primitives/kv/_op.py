"""A command as data: the words that are sent, and how to read the reply.

Promises: the memory backend and a live Redis run the same `Op`. Every word is text that can be encoded as
UTF-8.
Never: a network, a clock, a client library.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeAlias, TypeVar

import msgspec

from holdfast.primitives.kv.errors import NotText

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

Words: TypeAlias = tuple[str, ...]
"""A command as Redis reads it: its name first."""

Reply: TypeAlias = "int | str | list[Reply] | None"
"""A reply of Redis (RESP2)."""


class Op(msgspec.Struct, Generic[T_co], frozen=True):
    """One command. `words` are sent; `read` turns the reply into a typed answer."""

    words: Words
    read: Callable[[Reply], T_co]


class Entry(msgspec.Struct, frozen=True):
    """One entry of a stream."""

    id: str
    fields: dict[str, str]


def checked(words: Words) -> Words:
    """Checks that every word is text, so that both backends get the same command."""
    for word in words:
        if type(word) is not str or not word.isascii():
            return tuple(_text(word, words[0]) for word in words)
    return words


def _text(word: object, command: str) -> str:
    if not isinstance(word, str):
        raise NotText(f"{command}: keys and values are text (str), not {type(word).__name__}")
    try:
        word.encode()
    except UnicodeEncodeError as error:
        raise NotText(f"{command}: text that cannot be encoded as UTF-8: {error}") from error
    return str(word)
