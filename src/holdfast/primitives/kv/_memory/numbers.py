"""Parses numbers as strictly as Redis does."""

from __future__ import annotations

import math
import re
from typing import Final

from holdfast.primitives.kv._problems import (
    BOUND_NOT_A_FLOAT,
    NOT_A_FLOAT,
    NOT_AN_INTEGER,
    Refused,
)

INT_MIN: Final = -(2**63)
INT_MAX: Final = 2**63 - 1
UNSIGNED_MAX: Final = 2**64 - 1

_DECIMAL: Final = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_UNSIGNED: Final = re.compile(r"\+?\d{1,40}", re.ASCII)
_ENDLESS: Final = re.compile(r"[+-]?inf(?:inity)?", re.IGNORECASE)


def integer(text: str, problem: str = NOT_AN_INTEGER) -> int:
    """A 64-bit integer in canonical form: no whitespace, no plus, no leading zeros."""
    try:
        number = int(text)
    except ValueError:
        raise Refused(problem) from None
    if INT_MIN <= number <= INT_MAX and str(number) == text:
        return number
    raise Refused(problem)


def unsigned(text: str, problem: str) -> int:
    """A cursor or a part of an id: unsigned 64 bits; leading zeros and a plus are allowed."""
    if _UNSIGNED.fullmatch(text) and int(text) <= UNSIGNED_MAX:
        return int(text)
    raise Refused(problem)


def score(text: str) -> float:
    """A score: any float but NaN that fits into a double."""
    number = _parsed(text)
    if number is None or (math.isinf(number) and not _ENDLESS.fullmatch(text)):
        raise Refused(NOT_A_FLOAT)
    if number == 0 and re.search("[1-9]", re.split("[eE]", text)[0]):
        raise Refused(NOT_A_FLOAT)
    return number


def bound(text: str) -> tuple[float, bool]:
    """An end of a range of scores, and whether it is exclusive; an empty text is 0."""
    is_out = text.startswith("(")
    body = text[1:] if is_out else text
    number = _parsed(body) if body else 0.0
    if number is None:
        raise Refused(BOUND_NOT_A_FLOAT)
    return number, is_out


def _parsed(text: str) -> float | None:
    return float(text) if _DECIMAL.fullmatch(text) or _ENDLESS.fullmatch(text) else None


def score_text(number: float) -> str:
    return repr(number).removesuffix(".0")
