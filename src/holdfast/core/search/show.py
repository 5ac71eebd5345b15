"""The text of a query. Promises: `parse(show(query)) == query` for every query that `parse` makes."""

from __future__ import annotations

import re
from typing import Final, assert_never

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

_EMPTY: Final = '""'
_BARE: Final = re.compile(r"\w[\w:/@+-]*(?:\.[\w:/@+-]+)*")
"""Text that needs no quotes. Two dots in a row would be a range."""


def show(query: Query) -> str:
    clause = "" if query.clause is None else _clause(query.clause)
    if query.sort is None:
        return clause
    sort = f"sort:{'-' if query.sort.descending else ''}{query.sort.key}"
    return f"{clause} {sort}" if clause else sort


def _clause(clause: Clause) -> str:
    match clause:
        case Term():
            return _term(clause)
        case Not():
            return f"-{_inner(clause.clause, And, Or)}"
        case And():
            return " ".join(_inner(each, And, Or) for each in clause.clauses)
        case Or():
            return " OR ".join(_inner(each, Or) for each in clause.clauses)
        case _:
            assert_never(clause)


def _inner(clause: Clause, *grouped: type[And | Or]) -> str:
    text = _clause(clause)
    return f"({text})" if isinstance(clause, grouped) else text


def _term(term: Term) -> str:
    return f"{'.'.join((term.key, *term.path))}:{','.join(map(_test, term.tests))}"


def _test(test: Test) -> str:
    match test:
        case Exact():
            return _text(test.text) or _EMPTY
        case Glob():
            return "*".join(map(_text, test.parts))
        case Contains():
            return f"~{_text(test.text) or _EMPTY}"
        case Compare():
            return f"{test.comparison}{test.bound}"
        case Between():
            return f"{test.low}..{test.high}"
        case _:
            assert_never(test)


def _text(text: str) -> str:
    """The text, in quotes where it needs them."""
    if not text or _BARE.fullmatch(text):
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
