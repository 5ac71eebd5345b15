"""A query as a condition of SQL, for SQLite and PostgreSQL.

The caller gives the SQL expression of each key: a column, or a subquery in parentheses. `args` and `meta` are
JSON text; `lock` is the time at which the lease ends; `age` is judged by the expression of `created`.
Promises: the condition holds for the rows that `matches` accepts, in every collation; values are named
parameters, and words of the table of keys are literals; an equality that is not negated stays in a form that
an index serves. Never: writes a value of a caller into the text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple, TypeAlias, assert_never

from holdfast.core.search.keys import CREATED, ID, NAMED, TASK_KEYS, Key, Keys, Kind
from holdfast.core.search.params import FLOAT, TEXT, Params, SqlDialect, Value, within
from holdfast.core.search.sql_json import json_test, place
from holdfast.core.search.sql_text import text_test
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
    Sort,
    Term,
    Test,
)
from holdfast.core.search.values import limits

__all__ = ["Columns", "Condition", "SqlDialect", "condition", "order_by", "rows_after"]

Columns: TypeAlias = Mapping[str, str]
"""The SQL expression of each key of the table of keys, and of `id`. Under `NAMED`, if rows have another name,
the query for the ids that a name stands for, with `{name}` in the place of the name. Of a key with many
values, the table of the values: its columns are `task_id` and the name of the key."""
NEWEST_FIRST: Final = Sort(CREATED, descending=True)
"""The order of a list whose query does not say one."""


class Condition(NamedTuple):
    """The text of a condition, and the values of its parameters by name."""

    text: str
    values: dict[str, Value]


def condition(
    query: Query,
    columns: Columns,
    dialect: SqlDialect,
    *,
    now: float,
    keys: Keys = TASK_KEYS,
    by_row: bool = False,
) -> Condition:
    """The condition of a WHERE. A row for which it is NULL does not match. `by_row`: another condition bounds
    the rows, so the values of a key with many are looked up for each of them."""
    params = Params(dialect)
    writer = _Writer(columns, keys, params, now, by_row)
    text = "TRUE" if query.clause is None else writer.clause(query.clause)
    return Condition(text, params.values)


def order_by(sort: Sort | None, columns: Columns, dialect: SqlDialect) -> str:
    """The terms of an ORDER BY. The id breaks ties, so a page can begin after any row."""
    column, descending = _sorted_by(sort, columns)
    direction = "DESC" if descending else "ASC"
    return f"{column} {direction}, {_id(columns, dialect)} {direction}"


def rows_after(
    sort: Sort | None, columns: Columns, dialect: SqlDialect, value: float, id: str
) -> Condition:
    """The condition for the rows behind one row in that order, which a cursor holds as its time and its id.
    The time is `updated` when the list is sorted by it, else `created`."""
    column, descending = _sorted_by(sort, columns)
    casts = ("", "") if dialect is SqlDialect.SQLITE else (f"::{FLOAT}", f"::{TEXT}")
    text = (
        f"({column}, {_id(columns, dialect)}) {'<' if descending else '>'} "
        f"(:after_value{casts[0]}, :after_id{casts[1]})"
    )
    return Condition(text, {"after_value": value, "after_id": id})


def _sorted_by(sort: Sort | None, columns: Columns) -> tuple[str, bool]:
    """The expression, and whether its largest value is first. The youngest was created last."""
    key, descending = sort or NEWEST_FIRST, (sort or NEWEST_FIRST).descending
    if key.key == "age":
        return columns[CREATED], not descending
    return columns[key.key], descending


def _id(columns: Columns, dialect: SqlDialect) -> str:
    return columns[ID] if dialect is SqlDialect.SQLITE else f'{columns[ID]} COLLATE "C"'


class _Writer(NamedTuple):
    """Writes the clauses of one query."""

    columns: Columns
    keys: Keys
    params: Params
    now: float
    by_row: bool

    def clause(self, clause: Clause) -> str:
        match clause:
            case Term():
                return self._term(clause)
            case And():
                return f"({' AND '.join(map(self.clause, clause.clauses))})"
            case Or():
                return f"({' OR '.join(map(self.clause, clause.clauses))})"
            case Not():
                # A test of an absent value is NULL. Its negation must hold.
                inner = self._replace(by_row=True).clause(clause.clause)
                return f"NOT COALESCE({inner}, FALSE)"
            case _:
                assert_never(clause)

    def _term(self, term: Term) -> str:
        key = self.keys[term.key]
        column = self.columns[CREATED if key.kind is Kind.AGE else key.name]
        if key.kind is Kind.JSON:
            at = place(column, term.path, self.params)
            tests = [json_test(at, key, test, self.now, self.params) for test in term.tests]
        elif key.many:
            return self._one_of_many(key, column, term.tests)
        else:
            tests = [self._test(key, column, test) for test in term.tests]
        return tests[0] if len(tests) == 1 else f"({' OR '.join(tests)})"

    def _one_of_many(self, key: Key, table: str, tests: tuple[Test, ...]) -> str:
        """Equalities are one set of rows, which an index finds and a list reads in its order. Other tests,
        and what is negated, are tried on the values of each row."""
        row = self.columns[ID]
        found = " OR ".join([self._test(key, key.name, test) for test in tests])
        if not self.by_row and all(isinstance(test, Exact) for test in tests):
            return f"{row} IN (SELECT task_id FROM {table} WHERE {found})"
        return f"EXISTS (SELECT 1 FROM {table} WHERE task_id = {row} AND ({found}))"

    def _test(self, key: Key, column: str, test: Test) -> str:
        match test:
            case Glob() | Contains():
                return text_test(column, test, self.params)
            case Exact() if key.kind is Kind.TEXT and test.text in key.words:
                # A word of the table is written out: a partial index serves no parameter.
                return f"{column} = '{test.text}'"
            case Exact() if key.name == ID and NAMED in self.columns:
                name = self.params.add(test.text, TEXT)
                # One set, and not OR: an index serves each of its parts.
                return (
                    f"{column} IN (SELECT {name} UNION ALL {self.columns[NAMED].format(name=name)})"
                )
            case Exact() if key.kind is Kind.TEXT:
                return text_test(column, test, self.params)
            case Exact() | Compare() | Between():
                return within(column, limits(key, test, self.now), self.params, FLOAT)
            case _:
                assert_never(test)
