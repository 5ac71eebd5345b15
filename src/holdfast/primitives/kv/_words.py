"""Arguments of commands as the words that are sent, checked once for memory and live.

Promises: an argument of the wrong type is refused before a store sees it.
Never: a string taken for a list of characters, True taken for 1, an int that Python cannot print.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, TypeVar

from holdfast.core.check import shown
from holdfast.primitives.kv._blocking import checked_ms
from holdfast.primitives.kv.errors import BadCommand, NotAFloat, NotAnInteger, NotText

V = TypeVar("V")
WHOLE_MAX: Final = 10**40
"""Of either sign. Redis refuses more than 64 bits; a larger number may be too long to print."""


def whole(value: int) -> str:
    is_int = isinstance(value, int) and not isinstance(value, bool)
    if not is_int or not -WHOLE_MAX <= value <= WHOLE_MAX:
        raise NotAnInteger(f"{shown(value)} is not an integer or out of range: give an int")
    return str(int(value))


def span(value: int) -> str:
    """A time to live."""
    word = whole(value)
    if not 1 <= value < 2**63:
        raise BadCommand(f"a time to live of {value}: give a whole number from 1 to 2**63 - 1")
    return word


def pause(block_ms: int) -> str:
    """How long a read may wait."""
    word = whole(block_ms)
    checked_ms(block_ms)
    return word


def score(value: float) -> str:
    """NaN passes: Redis refuses it."""
    try:
        if isinstance(value, bool | bytes):
            raise TypeError
        return repr(float(value))
    except (TypeError, ValueError, OverflowError):
        raise NotAFloat(f"{shown(value)} is not a valid float: give a number") from None


def texts(values: Iterable[str]) -> tuple[str, ...]:
    """Each text is checked when it is sent."""
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise NotText(f"{shown(values)} must be a list of str")
    return tuple(values)


def pairs(mapping: Mapping[str, str]) -> tuple[str, ...]:
    """The keys of a mapping, each followed by its value."""
    return tuple(word for pair in mapped(mapping).items() for word in pair)


def mapped(mapping: Mapping[str, V]) -> Mapping[str, V]:
    if not isinstance(mapping, Mapping):
        raise NotText(f"{shown(mapping)} is not a mapping: give a dict")
    return mapping


def chosen(**options: bool) -> tuple[str, ...]:
    """The names of the options that are set."""
    for name, value in options.items():
        if type(value) is not bool:
            raise BadCommand(f"{name} is {shown(value)}: give True or False")
    return tuple(name.upper() for name, is_asked in options.items() if is_asked)
