"""Whether a row matches a query, judged in Python: the meaning of the grammar.

A live feed filters with it, and a test holds the SQL of `sql.py` against it.
Promises: a value that is absent (None, or JSON null) matches no test, so `-key:*` finds it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias, TypeGuard, assert_never

from holdfast.core.search import values
from holdfast.core.search.keys import CREATED, ID, NAMED, TASK_KEYS, Key, Keys, Kind
from holdfast.core.search.tree import (
    And,
    Between,
    Clause,
    Compare,
    Contains,
    Exact,
    Glob,
    Not,
    Or,
    Query,
    Term,
    Test,
)

Row: TypeAlias = Mapping[str, object]
"""The values of one row by key: text (or a list of texts, of which one has to match), numbers, epoch seconds,
the end of the lease for `lock`, decoded JSON for `args` and `meta`. A key that the row lacks is absent. Under
`NAMED`, another name of the row."""


def matches(query: Query, row: Row, now: float, keys: Keys = TASK_KEYS) -> bool:
    return query.clause is None or _holds(query.clause, row, now, keys)


def _holds(clause: Clause, row: Row, now: float, keys: Keys) -> bool:
    match clause:
        case Term():
            key = keys[clause.key]
            value = _value(key, clause.path, row)
            if isinstance(value, list) and key.kind is Kind.TEXT:
                return any(_test(key, t, each, now) for each in value for t in clause.tests)
            holds = value is not None and any(_test(key, t, value, now) for t in clause.tests)
            named = row.get(NAMED) if key.name == ID else None
            return holds or (isinstance(named, str) and Exact(named) in clause.tests)
        case And():
            return all(_holds(each, row, now, keys) for each in clause.clauses)
        case Or():
            return any(_holds(each, row, now, keys) for each in clause.clauses)
        case Not():
            return not _holds(clause.clause, row, now, keys)
        case _:
            assert_never(clause)


def _value(key: Key, path: tuple[str, ...], row: Row) -> object:
    value = row.get(CREATED if key.kind is Kind.AGE else key.name)
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _test(key: Key, test: Test, value: object, now: float) -> bool:
    match test:
        case Glob():
            is_any = test.parts == ("", "")
            return is_any or (isinstance(value, str) and is_like(value, test.parts))
        case Contains():
            return isinstance(value, str) and ascii_lower(test.text) in ascii_lower(value)
        case Exact() if key.kind is Kind.TEXT:
            return value == test.text
        case Exact() if key.kind is Kind.JSON:
            return _equals(value, test.text)
        case Exact() | Compare() | Between():
            return _is_number(value) and values.limits(key, test, now).hold(value)
        case _:
            assert_never(test)


def _equals(value: object, text: str) -> bool:
    """A JSON value against text: `42` equals the number and the string."""
    if isinstance(value, bool):
        return text == ("true" if value else "false")
    return value == text or (_is_number(value) and value == values.number(text))


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_like(text: str, parts: tuple[str, ...]) -> bool:
    """Whether the text has the parts in order, from its start to its end."""
    first, *middle, last = parts
    end = len(text) - len(last)
    at = len(first)
    if at > end or not text.startswith(first) or not text.endswith(last):
        return False
    for part in middle:
        at = text.find(part, at, end)
        if at < 0:
            return False
        at += len(part)
    return True


def ascii_lower(text: str) -> str:
    """Lower case of ASCII letters only, as both databases do it in the collation "C"."""
    return text.translate(_LOWER)


_LOWER: Final = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}
