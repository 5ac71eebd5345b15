"""Patterns of SCAN as Redis matches them: over bytes, so `?` is one byte and not one letter.

`*` any bytes, `?` one, `[abc]`, `[a-z]`, `[^a]` one of a class, `\\` escapes the next byte. An open class
ends with the pattern. The time is at most len(pattern) * len(text).
"""

from __future__ import annotations

import functools
from typing import Final, TypeAlias

ANY: Final = frozenset(range(256))
_STAR, _ONE, _OPEN, _CLOSE, _NOT, _TO, _ESCAPE = b"*?[]^-\\"

Token: TypeAlias = "frozenset[int] | None"
"""The bytes allowed at this position; None is a star."""


def matches(pattern: str, text: str) -> bool:
    return _match(_compiled(pattern.encode()), text.encode())


def _match(tokens: tuple[Token, ...], text: bytes) -> bool:
    """Only the last star has to be tried again: the tokens between two stars have a fixed length."""
    if not text:
        return not tokens  # an oddity of Redis: stars do not match nothing (`*` alone is not asked)
    place = at = 0
    star: tuple[int, int] | None = None
    while at < len(text):
        token = tokens[place] if place < len(tokens) else frozenset()
        if token is None:
            place += 1
            star = (place, at)
        elif text[at] in token:
            place += 1
            at += 1
        elif star is None:
            return False
        else:
            place, at = star[0], star[1] + 1
            star = (place, at)
    return all(token is None for token in tokens[place:])


@functools.lru_cache(maxsize=128)
def _compiled(pattern: bytes) -> tuple[Token, ...]:
    tokens: list[Token] = []
    place = 0
    while place < len(pattern):
        byte = pattern[place]
        if byte == _STAR:
            tokens.append(None)
        elif byte == _ONE:
            tokens.append(ANY)
        elif byte == _OPEN:
            token, place = _class(pattern, place + 1)
            tokens.append(token)
        else:
            if byte == _ESCAPE and place + 1 < len(pattern):
                place += 1
            tokens.append(frozenset((pattern[place],)))
        place += 1
    return tuple(tokens)


def _class(pattern: bytes, place: int) -> tuple[frozenset[int], int]:
    """The class that starts after a `[`, and the index of its `]` (or of the last byte)."""
    is_not = pattern[place : place + 1] == b"^"
    place += is_not
    found: set[int] = set()
    while place < len(pattern) and pattern[place] != _CLOSE:
        if pattern[place] == _ESCAPE and place + 1 < len(pattern):
            place += 1
            found.add(pattern[place])
        elif place + 2 < len(pattern) and pattern[place + 1] == _TO:
            low, high = sorted((_signed(pattern[place]), _signed(pattern[place + 2])))
            found.update(number & 0xFF for number in range(low, high + 1))
            place += 2
        else:
            found.add(pattern[place])
        place += 1
    return (ANY - found if is_not else frozenset(found)), place


def _signed(byte: int) -> int:
    """Redis compares chars, which are signed on most machines."""
    return byte - 256 if byte > 127 else byte
