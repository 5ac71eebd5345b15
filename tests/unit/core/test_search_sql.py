"""The SQL of a query selects the rows that `matches` accepts, on both databases."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

import apsw
import asyncpg
import msgspec
import pytest
from hypothesis import given, settings

from holdfast.core import codec
from holdfast.core.search import SqlDialect, condition, matches, order_by, parse, rows_after
from holdfast.core.search.keys import TASK_KEYS, Kind
from holdfast.core.search.sql import Condition
from holdfast.core.search.sql_json import postgres_document
from holdfast.core.search.tree import Query
from proof.lab.servers import Postgres
from tests.unit.core.search_grid import Group, groups
from tests.unit.core.search_support import COLUMNS, NOW, VIEW, cases, create_table, where

Rows = list[dict[str, Any]]
if TYPE_CHECKING:
    Postgresql: TypeAlias = asyncpg.Connection[asyncpg.Record]
INSERT = f"INSERT INTO task VALUES ({', '.join(f'${n + 1}' for n in range(len(COLUMNS) + 1))})"


def stored(row: dict[str, Any], nth: int) -> list[Any]:
    """The values in the order of the table's columns."""
    return [nth, *(_stored(name, row[name]) for name in COLUMNS)]


def _stored(name: str, value: object) -> object:
    key = TASK_KEYS[name]
    is_document = (key.kind is Kind.JSON or key.many) and value is not None
    return codec.dumps(value) if is_document else value


def expected(query: Query, given_rows: Rows) -> list[int]:
    return [nth for nth, row in enumerate(given_rows) if matches(query, row, NOW)]


def fill(connection: apsw.Connection, given_rows: Rows) -> None:
    connection.execute("DELETE FROM task")
    for nth, row in enumerate(given_rows):
        connection.execute(INSERT.replace("$", "?"), stored(row, nth))


def selected_by(connection: apsw.Connection, query: Query) -> list[object]:
    found = where(query, SqlDialect.SQLITE)
    text = f"SELECT nth FROM task WHERE {found.text} ORDER BY nth"
    return [nth for (nth,) in connection.execute(text, found.values)]


async def refill(connection: Postgresql, given_rows: Rows) -> None:
    await connection.execute("TRUNCATE task")
    await connection.executemany(INSERT, [stored(row, nth) for nth, row in enumerate(given_rows)])


async def fetched(connection: Postgresql, query: Query) -> list[int]:
    text, values = numbered(where(query, SqlDialect.POSTGRES))
    answer = await connection.fetch(f"SELECT nth FROM task WHERE {text} ORDER BY nth", *values)
    return [row["nth"] for row in answer]


@pytest.fixture(scope="module")
def sqlite() -> Iterator[apsw.Connection]:
    connection = apsw.Connection(":memory:")
    connection.execute(
        create_table().replace("bigint", "integer").replace("double precision", "real")
    )
    connection.execute(VIEW[SqlDialect.SQLITE])
    yield connection
    connection.close()


@given(cases)
@settings(max_examples=300)
def test_sqlite_selects_what_matches(sqlite: apsw.Connection, case: tuple[Query, Rows]) -> None:
    query, drawn = case
    fill(sqlite, drawn)
    assert selected_by(sqlite, query) == expected(query, drawn)


@pytest.mark.parametrize("group", groups(), ids=lambda group: group.key)
def test_sqlite_agrees_on_every_pair(sqlite: apsw.Connection, group: Group) -> None:
    fill(sqlite, group.rows)
    for query in group.queries():
        assert selected_by(sqlite, query) == expected(query, group.rows), query


def test_postgres_agrees_on_every_pair(pg_server: Postgres) -> None:
    async def agree() -> None:
        connection = await asyncpg.connect(pg_server.dsn())
        await connection.execute(create_table())
        await connection.execute(VIEW[SqlDialect.POSTGRES])
        for group in groups():
            await refill(connection, group.rows)
            for query in group.queries():
                assert await fetched(connection, query) == expected(query, group.rows), query
        await connection.close()

    asyncio.run(agree())


def test_postgres_selects_what_matches(pg_server: Postgres) -> None:
    with asyncio.Runner() as runner:
        connection = runner.run(asyncpg.connect(pg_server.dsn()))
        runner.run(connection.execute(create_table()))
        runner.run(connection.execute(VIEW[SqlDialect.POSTGRES]))

        async def selected(query: Query, drawn: Rows) -> list[int]:
            await refill(connection, drawn)
            return await fetched(connection, query)

        @given(cases)
        @settings(max_examples=300)
        def agree(case: tuple[Query, Rows]) -> None:
            query, drawn = case
            assert runner.run(selected(query, drawn)) == expected(query, drawn)

        agree()
        runner.run(connection.close())


def numbered(where: Condition) -> tuple[str, list[object]]:
    """The condition as the store's driver sends it."""
    names = list(where.values)
    text = re.sub(r"(?<!:):([a-z_]+)", lambda m: f"${names.index(m[1]) + 1}", where.text)
    return text, list(where.values.values())


def test_a_document_that_postgres_cannot_read_has_no_values(pg_server: Postgres) -> None:
    """A string with U+0000 in one row does not make the search of all rows fail."""

    async def select(text: str) -> object:
        connection = await asyncpg.connect(pg_server.dsn())
        await connection.execute(create_table())
        columns = f"INSERT INTO task (nth, {COLUMNS['args']}) VALUES ($1, $2)"
        await connection.executemany(columns, [(0, '{"a": "\\u0000"}'), (1, '{"a": "x"}')])
        found, values = numbered(condition(parse(text), COLUMNS, SqlDialect.POSTGRES, now=NOW))
        answer = await connection.fetchval(
            f"SELECT array_agg(nth) FROM task WHERE {found}", *values
        )
        await connection.close()
        return answer

    assert asyncio.run(select("args.a:*")) == [1]
    assert asyncio.run(select("-args.a:*")) == [0]


def test_any_document_is_read_or_left_out_by_every_version_of_postgres(pg_server: Postgres) -> None:
    """The check works without the functions of newer versions, and says what `pg_input_is_valid` says. It may
    leave out what has an escaped pair of surrogates, which no encoder of the product writes."""
    texts = [
        "a",
        "\x00",
        "\x01",
        "\\",
        "\\u0000",
        "\\\\u0000",
        "\\\x00",
        '"',
        "\U0001f600",
        "\\ud800",
        "u0000",
    ]
    values = [
        *texts,
        *(first + second for first in texts for second in texts),
        {"a\x00": 1},
        10**400,
    ]
    documents = [msgspec.json.encode(value).decode() for value in values]
    documents += ['"\\ud800"', '"\\uDFFF"', '"\\\\\\ud800"']
    is_read = f"({postgres_document('$1::text')}) IS NOT NULL"
    differs = f"SELECT {is_read} <> pg_input_is_valid($1::text, 'jsonb')"

    async def differing() -> list[str]:
        connection = await asyncpg.connect(pg_server.dsn())
        found = [text for text in documents if await connection.fetchval(differs, text)]
        await connection.close()
        return found

    assert asyncio.run(differing()) == []
    assert "pg_" not in postgres_document("a")


@pytest.mark.parametrize(
    ("text", "index"),
    [
        ("status:failed", "(status=?)"),
        ("0199", "(id>? AND id<?)"),
        ("age:<1h", "(created_at>?)"),
        ("type:mail (priority:high OR attempt:>2) -queue:low", "(type=?)"),
    ],
)
def test_an_index_serves_a_bounded_query(text: str, index: str) -> None:
    connection = apsw.Connection(":memory:")
    connection.execute(
        "CREATE TABLE task (id text PRIMARY KEY, status text, type text, queue text, priority integer,"
        " attempts integer, created_at real) STRICT"
    )
    for column in ("status", "type", "created_at"):
        connection.execute(f"CREATE INDEX by_{column} ON task ({column})")
    columns = {"id": "id", "status": "status", "type": "type", "queue": "queue",
               "priority": "priority", "attempt": "attempts", "created": "created_at"}  # fmt: skip
    where = condition(parse(text), columns, SqlDialect.SQLITE, now=NOW)
    plan = connection.execute(
        f"EXPLAIN QUERY PLAN SELECT * FROM task WHERE {where.text}", where.values
    )
    assert index in str(list(plan))


def test_values_never_stand_in_the_text() -> None:
    text = """type:"x' OR 1=1 --" args.a:"y'; DROP" error:~"z'" id:"w'*" """
    for dialect in SqlDialect:
        where = condition(parse(text), COLUMNS, dialect, now=NOW)
        assert "DROP" not in where.text
        assert "1=1" not in where.text
        assert "x' OR 1=1 --" in where.values.values()


def test_a_query_with_the_most_parameters_has_distinct_names() -> None:
    path = ".".join("a" * 16)
    text = " ".join(f"args.{path}:1" for _ in range(50))
    where = condition(parse(text), COLUMNS, SqlDialect.POSTGRES, now=NOW)
    assert len(where.values) == 50 * 18
    assert all(re.fullmatch("[a-z_]+", name) for name in where.values)


@pytest.mark.parametrize("dialect", SqlDialect)
@pytest.mark.parametrize(
    ("text", "order"),
    [
        ("", [3, 2, 1, 0]),
        ("sort:created", [0, 1, 2, 3]),
        ("sort:-created", [3, 2, 1, 0]),
        ("sort:age", [3, 2, 1, 0]),
        ("sort:-age", [0, 1, 2, 3]),
        ("sort:-updated", [0, 2, 1, 3]),
    ],
)
def test_pages_follow_each_other(
    pg_server: Postgres, dialect: SqlDialect, text: str, order: list[int]
) -> None:
    """Page by page with the last row's time and id: every row once, in order, ties broken by the id."""
    sort = parse(text).sort
    times = [(5.0, 9.0, "A"), (5.0, 7.0, "a"), (6.0, 7.0, "é"), (7.0, 1.0, "B")]
    columns = {"id": "id", "created": "created_at", "updated": "updated_at"}
    ordered = order_by(sort, columns, dialect)

    def page(after: Condition | None) -> tuple[str, dict[str, Any]]:
        where, values = after or Condition("TRUE", {})
        return f"SELECT nth FROM task WHERE {where} ORDER BY {ordered} LIMIT 1", values

    async def postgres() -> list[int]:
        connection = await asyncpg.connect(pg_server.dsn())
        await connection.execute(
            "CREATE TEMPORARY TABLE task (nth integer, created_at float8, updated_at float8, id text)"
        )
        await connection.executemany(
            "INSERT INTO task VALUES ($1, $2, $3, $4)", [(n, *row) for n, row in enumerate(times)]
        )
        answer: list[int] = []
        after: Condition | None = None
        while len(answer) <= len(times):
            where, values = numbered(Condition(*page(after)))
            nth = await connection.fetchval(where, *values)
            if nth is None:
                break
            answer.append(nth)
            after = following(nth)
        await connection.close()
        return answer

    def sqlite_pages() -> list[int]:
        connection = apsw.Connection(":memory:")
        connection.execute(
            "CREATE TABLE task (nth integer, created_at real, updated_at real, id text)"
        )
        connection.executemany(
            "INSERT INTO task VALUES (?, ?, ?, ?)", [(n, *row) for n, row in enumerate(times)]
        )
        answer: list[int] = []
        after: Condition | None = None
        while found := connection.execute(*page(after)).fetchall():
            nth = int(str(found[0][0]))
            answer.append(nth)
            after = following(nth)
        return answer

    def following(nth: int) -> Condition:
        created, updated, id = times[nth]
        by_update = sort is not None and sort.key == "updated"
        return rows_after(sort, columns, dialect, updated if by_update else created, id)

    pages = sqlite_pages() if dialect is SqlDialect.SQLITE else asyncio.run(postgres())
    assert pages == order


@pytest.mark.parametrize("dialect", SqlDialect)
def test_a_status_is_written_out_so_that_a_partial_index_serves_it(dialect: SqlDialect) -> None:
    found = condition(parse("status:running,stuck type:mail"), COLUMNS, dialect, now=NOW)
    assert f"{COLUMNS['status']} = 'running' OR {COLUMNS['status']} = 'stuck'" in found.text
    assert list(found.values.values()) == ["mail"]
    for key in TASK_KEYS.values():
        assert all(word.isalpha() for word in key.words), "a word is written into the text"
