"""The tree of a parsed query.

Values are kept as they were written; `values.py` reads them when `now` is known. So a stored query
(a saved view, a subscription) keeps the meaning of `age:>1h`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TypeAlias

import msgspec


class Comparison(StrEnum):
    """How a value relates to the bound of a range."""

    ABOVE = ">"
    AT_LEAST = ">="
    BELOW = "<"
    AT_MOST = "<="


class Exact(msgspec.Struct, frozen=True):
    """`key:text`"""

    text: str


class Glob(msgspec.Struct, frozen=True):
    """`key:a*b`. The literal texts around the stars: at least two, and only the first and the last may be
    empty. `*` alone is `("", "")` and matches every value that is present."""

    parts: tuple[str, ...]


class Contains(msgspec.Struct, frozen=True):
    """`key:~"text"`: part of the value. ASCII letters match in both cases."""

    text: str


class Compare(msgspec.Struct, frozen=True):
    """`key:>x`"""

    comparison: Comparison
    bound: str


class Between(msgspec.Struct, frozen=True):
    """`key:low..high`, both included."""

    low: str
    high: str


Test: TypeAlias = Exact | Glob | Contains | Compare | Between


class Term(msgspec.Struct, frozen=True):
    """`key:a,b`: one of the tests holds for the value of the key."""

    key: str
    tests: tuple[Test, ...]
    path: tuple[str, ...] = ()
    """Below `args` and `meta`: the names of the object fields that lead to the value."""


class And(msgspec.Struct, frozen=True):
    """Two or more clauses that all hold."""

    clauses: tuple[Clause, ...]


class Or(msgspec.Struct, frozen=True):
    """Two or more clauses of which one holds."""

    clauses: tuple[Clause, ...]


class Not(msgspec.Struct, frozen=True):
    clause: Clause


Clause: TypeAlias = Term | And | Or | Not


class Sort(msgspec.Struct, frozen=True):
    """`sort:key`, or `sort:-key` for the largest value first."""

    key: str
    descending: bool = False


class Query(msgspec.Struct, frozen=True):
    """A whole query. Without a clause it matches every row."""

    clause: Clause | None = None
    sort: Sort | None = None
