"""Named parameters of a condition, and ranges written with them.

Names have letters only: the drivers of the stores read `:name` in that form.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, TypeAlias

from holdfast.core.search.values import Limits

Value: TypeAlias = str | float

_LETTERS: Final = "abcdefghijklmnopqrstuvwxyz"
TEXT: Final = "text"
FLOAT: Final = "float8"
EXACT: Final = "float8::numeric"
"""The cast of a number that is compared with a JSON number of any size."""


class SqlDialect(StrEnum):
    """The databases that a condition is written for."""

    SQLITE = "sqlite"
    POSTGRES = "postgres"


class Params:
    """Collects the values of one condition."""

    __slots__ = ("dialect", "values")

    def __init__(self, dialect: SqlDialect) -> None:
        self.dialect = dialect
        self.values: dict[str, Value] = {}

    @property
    def is_sqlite(self) -> bool:
        return self.dialect is SqlDialect.SQLITE

    def add(self, value: Value, cast: str) -> str:
        """The parameter as it stands in the text. PostgreSQL needs its type."""
        name = f"q_{_letters(len(self.values))}"
        self.values[name] = value
        return f":{name}" if self.is_sqlite else f":{name}::{cast}"


def within(expression: str, limits: Limits, params: Params, cast: str) -> str:
    """The condition that the expression lies within the limits."""
    parts = []
    if limits.low is not None:
        parts.append(
            f"{expression} >{_or_equal(limits.low_included)} {params.add(limits.low, cast)}"
        )
    if limits.high is not None:
        sign = f"<{_or_equal(limits.high_included)}"
        parts.append(f"{expression} {sign} {params.add(limits.high, cast)}")
    return f"({' AND '.join(parts)})"


def _or_equal(included: bool) -> str:
    return "=" if included else ""


def _letters(index: int) -> str:
    """a, b, … z, aa, ab, …"""
    high, low = divmod(index, len(_LETTERS))
    return (_letters(high - 1) if high else "") + _LETTERS[low]
