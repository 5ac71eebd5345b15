"""Options of a list beside its query: `--status failed -q "tag:a OR tag:b"` means both."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.core.search.keys import ID
from holdfast.core.search.tree import And, Clause, Exact, Glob, Query, Term


def narrowed(query: Query, values: Mapping[str, str | None], *, prefix: str | None = None) -> Query:
    """The query for the rows that match it and have these values. `prefix`: the beginning of the id."""
    clauses: list[Clause] = [
        Term(key, (Exact(str(value)),)) for key, value in values.items() if value is not None
    ]
    if prefix:
        clauses.append(Term(ID, (Glob((prefix, "")),)))
    first = query.clause
    if first is not None:
        clauses[:0] = first.clauses if isinstance(first, And) else (first,)
    whole = And(tuple(clauses)) if len(clauses) > 1 else next(iter(clauses), None)
    return Query(whole, query.sort)
