"""A command as data: the words that go over the wire, and how to read what comes back.

Promises: the memory twin and a live Redis run the very same `Op`; every word is text that UTF-8 can carry.
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
"""An answer as Redis gives it (RESP2)."""


class Op(msgspec.Struct, Generic[T_co], frozen=True):
    """One command. `words` is what is sent, `read` makes the typed answer from the reply."""

    words: Words
    read: Callable[[Reply], T_co]


class Entry(msgspec.Struct, frozen=True):
    """One entry of a stream."""

    id: str
    fields: dict[str, str]


def checked(words: Words) -> Words:
    """The words as plain text, or an error: both backends must be given the same thing."""
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
        raise NotText(f"{command}: text that UTF-8 cannot carry: {error}") from error
    return str(word)
