"""Whether an index bounds a search. A search without one reads the newest rows only."""

from __future__ import annotations

from typing import Final, assert_never

from holdfast.core.search.keys import ID, TASK_KEYS, Keys, Kind
from holdfast.core.search.tree import And, Clause, Exact, Glob, Not, Or, Query, Term, Test

NEWEST: Final = 100_000
"""How many of the newest rows a search without an index reads."""
SCOPE: Final = "newest-100000"
"""What the answer to such a search has as its `scope`."""


def needs_scope(query: Query, keys: Keys = TASK_KEYS) -> bool:
    """True when no index bounds the query: the search must be limited to the newest rows."""
    return query.clause is None or not _is_bounded(query.clause, keys)


def _is_bounded(clause: Clause, keys: Keys) -> bool:
    match clause:
        case Term():
            key = keys[clause.key]
            return key.indexed and all(_is_narrow(key.kind, key.name, t) for t in clause.tests)
        case And():
            return any(_is_bounded(each, keys) for each in clause.clauses)
        case Or():
            return all(_is_bounded(each, keys) for each in clause.clauses)
        case Not():
            return False
        case _:
            assert_never(clause)


def _is_narrow(kind: Kind, name: str, test: Test) -> bool:
    """Whether an index on the key finds the rows: equality, a range of times, the prefix of an id."""
    match test:
        case Exact():
            return True
        case Glob():
            return name == ID and test.parts[0] != ""
        case _:
            return kind in (Kind.TIME, Kind.AGE)
