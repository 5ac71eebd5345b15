"""Drawn queries, drawn rows, and the table that holds such rows.

Texts come from few characters, so that drawn queries match drawn rows often; among them are all that one of
the databases, a pattern or the grammar treats specially.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from holdfast.core.search import Condition, SqlDialect, condition
from holdfast.core.search.keys import SORTED, TASK_KEYS, Key, Kind
from holdfast.core.search.tree import (
    And,
    Between,
    Clause,
    Compare,
    Comparison,
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

NOW = 1_763_237_251.5
COLUMNS = {
    name: {
        **{key.name: f"task_{key.name}" for key in TASK_KEYS.values() if key.many},
        "args": "payload_json",
        "meta": "metadata_json",
        "lock": "lease_until",
    }.get(name, f"c_{name}")
    for name in TASK_KEYS
    if name != "age"
}
"""The columns of the table; `c_` because some keys are words of SQL. Those of keys with many values are JSON
there, and views have them as the store does."""
SQL_TYPES = {Kind.NUMBER: "bigint", Kind.TIME: "double precision", Kind.LOCK: "double precision"}

texts = st.one_of(
    st.text(alphabet="aAbB", max_size=3),
    st.text(alphabet="aA*?[]%_\\é😀\ud7ff\ue000-.:,()~<>=\"' /!@", max_size=5),
    st.sampled_from(["OR", "true", "false", "1", "0.5", "-1", "null", "1..2"]),
)
printable = texts.filter(str.isprintable)
numbers = st.sampled_from(["0", "1", "-1", "2", "3", "0.5", "1.0", "999999999999999", "1.25"])
durations = st.sampled_from(["0s", "1s", "90s", "15m", "1h", "1h30m", "2d", "1w"])
dates = st.sampled_from(
    ["2025-11-15", "2025-11-15T20:07", "2025-11-15T20:07:31", "2025-11-15T20:07:31.5Z",
     "2025-11-15T21:07:31.500+01:00", "2025-11-16", "1970-01-01", "2025-11-15T20:07:30Z"]
)  # fmt: skip
moments = st.one_of(dates, durations.map("-{}".format), durations.map("+{}".format), st.just("now"))
paths = st.sampled_from([("a",), ("b",), ("a", "b"), ("a", "0"), ("é",), ("a", "b", "c-d")])
exact = printable.map(Exact)
contains = printable.map(Contains)
globs = st.builds(
    lambda first, middle, last: Glob((first, *filter(None, middle), last)),
    printable, st.lists(printable, max_size=2), printable,
)  # fmt: skip
present = st.just(Glob(("", "")))


def ranges(bounds: st.SearchStrategy[str]) -> st.SearchStrategy[Test]:
    return st.one_of(
        st.builds(Compare, st.sampled_from(Comparison), bounds),
        st.builds(Between, bounds, bounds),
        present,
    )


def tests_of(key: Key) -> st.SearchStrategy[Test]:
    match key.kind:
        case Kind.TEXT if key.words:
            return st.one_of(st.sampled_from(key.words).map(Exact), contains, globs)
        case Kind.TEXT:
            return st.one_of(exact, contains, globs, present)
        case Kind.JSON:
            return st.one_of(exact, numbers.map(Exact), contains, globs, ranges(numbers))
        case Kind.NUMBER:
            names = [name for name, _ in key.numbers]
            bounds = st.one_of(numbers, st.sampled_from(names)) if names else numbers
            return st.one_of(bounds.map(Exact), ranges(bounds))
        case Kind.TIME:
            return st.one_of(dates.map(Exact), ranges(moments))
        case Kind.AGE:
            return ranges(durations)
        case Kind.LOCK:
            return st.one_of(st.sampled_from(key.words).map(Exact), present)


@st.composite
def terms(draw: st.DrawFn) -> Term:
    kind = draw(st.sampled_from(Kind))
    key = draw(st.sampled_from([key for key in TASK_KEYS.values() if key.kind is kind]))
    tests = tuple(draw(st.lists(tests_of(key), min_size=1, max_size=3)))
    return Term(key.name, tests, draw(paths) if key.kind is Kind.JSON else ())


def _nested(inner: st.SearchStrategy[Clause]) -> st.SearchStrategy[Clause]:
    several = st.lists(inner, min_size=2, max_size=3).map(tuple)
    return st.one_of(several.map(And), several.map(Or), inner.map(Not))


clauses: st.SearchStrategy[Clause] = st.recursive(terms(), _nested, max_leaves=8)
sorts = st.builds(Sort, st.sampled_from(SORTED), st.booleans())
queries = st.builds(Query, st.none() | clauses, st.none() | sorts)

scalars = st.one_of(
    st.none(), st.booleans(), texts,
    st.sampled_from([0, 1, -1, 1.0, 0.5, 1.25, 1.2500000000000002, 2**60, -(10**30), 999999999999999]),
)  # fmt: skip
documents = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.dictionaries(st.sampled_from(["a", "b", "0", "é", "c-d"]), inner, max_size=3),
        st.lists(inner, max_size=2),
    ),
    max_leaves=5,
)
times = st.one_of(
    st.sampled_from(
        [NOW, NOW - 3600, NOW - 5400, NOW + 900, 1763237250.0, 1763237251.0, 0.0, 86400.0]
    ),
    st.floats(NOW - 800_000, NOW + 800_000),
)


tags = st.lists(printable.filter(bool), max_size=3)


def _values(key: Key) -> st.SearchStrategy[Any]:
    match key.kind:
        case Kind.TEXT if key.words:
            return st.none() | st.sampled_from([*key.words, "other"])
        case Kind.TEXT if key.many:
            return st.none() | tags
        case Kind.TEXT:
            return st.none() | texts
        case Kind.JSON:
            return st.none() | documents
        case Kind.NUMBER:
            return st.none() | st.integers(-1, 3) | st.just(999999999999999)
        case _:
            return st.none() | times


rows = st.lists(
    st.fixed_dictionaries({name: _values(TASK_KEYS[name]) for name in COLUMNS}),
    min_size=1,
    max_size=4,
)


def where(query: Query, dialect: SqlDialect) -> Condition:
    """The condition on the table. Drawn ids may be equal: a row is known by its number."""
    found = condition(query, COLUMNS, dialect, now=NOW)
    text = found.text.replace("task_id = c_id", "task_id = nth")
    return found._replace(text=text.replace("c_id IN (SELECT task_id", "nth IN (SELECT task_id"))


_VIEW = {
    SqlDialect.SQLITE: "CREATE TEMPORARY VIEW task_{0} AS SELECT nth AS task_id, value AS {0}"
    " FROM task, json_each(c_{0})",
    SqlDialect.POSTGRES: "CREATE TEMPORARY VIEW task_{0} AS SELECT nth AS task_id, {0}"
    " FROM task, jsonb_array_elements_text(c_{0}::jsonb) AS {0}",
}
VIEW = {
    dialect: "; ".join(text.format(key.name) for key in TASK_KEYS.values() if key.many)
    for dialect, text in _VIEW.items()
}


def create_table(strict: str = "") -> str:
    """The table as both databases make it."""
    columns = ", ".join(
        f"{f'c_{name}' if TASK_KEYS[name].many else column} {SQL_TYPES.get(TASK_KEYS[name].kind, 'text')}"
        for name, column in COLUMNS.items()
    )
    return f"CREATE TEMPORARY TABLE task (nth integer, {columns}) {strict}"


def _near(test: Test) -> list[Any]:
    """Values that the test accepts, or misses by little."""
    match test:
        case Exact(text=text) | Contains(text=text):
            return [text, text.upper(), text.lower(), f"a{text}", f"{text}a", f"a{text}b", text[1:]]
        case Glob(parts=parts):
            return [
                "".join(parts),
                "ab".join(parts),
                "*".join(parts),
                f"a{''.join(parts)}",
                parts[0],
            ]
        case Compare() | Between():
            return [-1, 0, 0.5, 1, 1.0, 1.25, 2, 3, 2**60]


@st.composite
def focused(draw: st.DrawFn) -> tuple[Query, list[dict[str, Any]]]:
    """One term, perhaps negated, and rows whose values of its key are close to what it accepts."""
    term = draw(terms())
    key = TASK_KEYS[term.key]
    near = st.sampled_from([value for test in term.tests for value in _near(test)])
    values: st.SearchStrategy[Any]
    match key.kind:
        case Kind.TEXT if key.many:
            named = near.filter(lambda tag: bool(tag) and tag.isprintable())
            values = st.lists(
                st.one_of(named, tags.filter(bool).map(lambda some: some[0])), max_size=2
            )
        case Kind.TEXT:
            values = st.one_of(near, near, _values(key))
        case Kind.JSON:
            values = st.one_of(near, scalars).map(lambda scalar: _at(term.path, scalar))
        case Kind.AGE:
            values = times
        case _:
            values = _values(key)
    column = "created" if key.kind is Kind.AGE else term.key
    empty = dict.fromkeys(COLUMNS)
    drawn = draw(st.lists(values, min_size=1, max_size=6))
    clause: Clause = Not(term) if draw(st.booleans()) else term
    return Query(clause), [{**empty, column: value} for value in drawn]


def _at(path: tuple[str, ...], value: Any) -> Any:
    """The document that has the value at the path."""
    for name in reversed(path):
        value = {name: value}
    return value


cases = st.one_of(focused(), focused(), st.tuples(queries, rows))
"""A query and rows to judge with it."""
