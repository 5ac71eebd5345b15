"""Validation of the arguments of callers: names, ids, texts, counts, durations.

Promises: an invalid value raises InvalidInput (or the given subclass) with the field, the value and what is
valid. The checks do not depend on the store. Every store can write a value that passed: text is valid UTF-8
without NUL, numbers are finite.
Never: changes a value beyond its type (an `int` of seconds becomes a `float`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from difflib import get_close_matches
from enum import Enum
from typing import Final, TypeVar

from holdfast.errors import InvalidInput

NAME_CHARS_MAX: Final = 200
TEXT_CHARS_MAX: Final = 2_000
RESERVED: Final = "!@"
"""Characters that ids and names of types and queues must not start with. Gates and shorthands use them."""
SECONDS_MAX: Final = 10 * 365 * 86_400.0
PAGE_MAX: Final = 1_000
OFFSET_MAX: Final = 1_000_000_000

E = TypeVar("E", bound=Enum)
Wrong = type[InvalidInput]


def check_name(
    field: str, value: object, *, most: int = NAME_CHARS_MAX, wrong: Wrong = InvalidInput
) -> str:
    """A name: printable text of 1 to `most` characters."""
    if not isinstance(value, str) or not value or len(value) > most:
        raise wrong(f"{field} must be text of 1 to {most} characters, not {shown(value)}")
    if not value.isprintable():
        raise wrong(f"{field} {shown(value)} has control characters: use printable text")
    return value


def check_names(field: str, value: object, *, most: int = PAGE_MAX) -> tuple[str, ...]:
    """A list of at most `most` names."""
    if not isinstance(value, list | tuple | set | frozenset) or len(value) > most:
        raise InvalidInput(f"{field} must be a list of at most {most} names, not {shown(value)}")
    return tuple(check_name(field, name) for name in value)


def check_id(field: str, value: object, *, wrong: Wrong = InvalidInput) -> str:
    """An id, or the name of a type or a queue: a name that does not start with a reserved character."""
    name = check_name(field, value, wrong=wrong)
    if name[0] in RESERVED:
        raise wrong(
            f"{field} {shown(value)} starts with a reserved character: use another than ! or @"
        )
    return name


def check_text(
    field: str, value: object, *, most: int = TEXT_CHARS_MAX, wrong: Wrong = InvalidInput
) -> str:
    """Free text, e.g. a reason. It may be empty and may have several lines."""
    if not isinstance(value, str) or len(value) > most:
        raise wrong(f"{field} must be text of at most {most} characters, not {shown(value)}")
    if not value.isprintable() and any(c not in "\n\t" and not c.isprintable() for c in value):
        raise wrong(f"{field} {shown(value)} has control characters: use printable text")
    return value


def check_whole(
    field: str, value: object, *, least: int, most: int, wrong: Wrong = InvalidInput
) -> int:
    """An int within bounds. True and 3.0 are refused."""
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise wrong(f"{field} is {shown(value)}: give a whole number from {least} to {most}")
    return value


def check_number(
    field: str,
    value: object,
    *,
    least: float = 0.0,
    most: float = SECONDS_MAX,
    wrong: Wrong = InvalidInput,
) -> float:
    """A finite number within bounds, e.g. of seconds."""
    if (
        not isinstance(value, int | float)
        or isinstance(value, bool)
        or not _is_within(value, least, most)
    ):
        unit = "seconds" if most == SECONDS_MAX else "a number"
        raise wrong(f"{field} is {shown(value)}: give {unit} from {least:g} to {most:.10g}")
    return float(value)


def check_positive(
    field: str, value: object, *, most: float = SECONDS_MAX, wrong: Wrong = InvalidInput
) -> float:
    """A finite number above zero."""
    if isinstance(value, int | float) and not isinstance(value, bool) and value <= 0:
        raise wrong(f"{field} is {shown(value)}: give a number above 0")
    return check_number(field, value, most=most, wrong=wrong)


def check_flag(field: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise InvalidInput(f"{field} is {shown(value)}: give True or False")
    return value


def check_callable(field: str, value: object) -> None:
    if not callable(value):
        raise InvalidInput(f"{field} is {shown(value)}: give a function")


def check_choice(field: str, value: object, kind: type[E], *, wrong: Wrong = InvalidInput) -> E:
    """A member of an enumeration, or its value."""
    try:
        return kind(value)
    except (ValueError, TypeError):
        names = ", ".join(str(member.value) for member in kind)
        raise wrong(f"{field} {shown(value)} is not known: use one of {names}") from None


def check_page(limit: object, *, field: str = "limit") -> int:
    """The page size of a list."""
    return check_whole(field, limit, least=1, most=PAGE_MAX)


def shown(value: object) -> str:
    """The value as it appears in a message: short and printable."""
    try:
        text = repr(value)
    except Exception:  # The message about the value matters more than its broken repr.
        text = f"a {type(value).__name__}"
    return text if len(text) <= 80 else f"{text[:77]}..."


def unknown_name(what: str, name: object, known: Iterable[str]) -> str:
    """The message about an unknown name: what it was given for, a known one that is near, all known ones."""
    names = list(known)
    near = get_close_matches(str(name), names, 1)
    guess = f"did you mean '{near[0]}'? Known are" if near else "known are"
    return f"{what} {shown(name)}: {guess} {', '.join(names)}"


def _is_within(value: float, least: float, most: float) -> bool:
    # An int may be too large for a float; comparing it with one is exact.
    return not (isinstance(value, float) and math.isnan(value)) and least <= value <= most
