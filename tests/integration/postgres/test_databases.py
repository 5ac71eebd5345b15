"""The databases that tests lend one another: empty, or not lent again."""

from __future__ import annotations

from urllib.parse import urlsplit

import psycopg
import pytest

from tests.databases import Databases

FILL = "INSERT INTO holdfast_node (id, started_at, seen_at, info_json) VALUES ('n1', 1, 1, '{}')"
COUNT = "SELECT count(*) FROM holdfast_node"


def run(dsn: str, *texts: str) -> list[tuple[object, ...]]:
    """The rows of the last statement."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        for text in texts[:-1]:
            connection.execute(text.encode())
        cursor = connection.execute(texts[-1].encode())
        return cursor.fetchall() if cursor.description else []


def test_a_filled_database_is_lent_again_without_its_rows(pg_databases: Databases) -> None:
    with pg_databases.migrated() as spent:
        run(spent, "CREATE TABLE more ()")  # The next one is new, and not at the end of its uses.
    with pg_databases.migrated() as first:
        assert run(first, FILL, COUNT) == [(1,)]
    with pg_databases.migrated() as second:
        assert second == first
        assert run(second, COUNT) == [(0,)]


@pytest.mark.parametrize(
    "change",
    [
        "CREATE TABLE more (id int)",
        "DROP INDEX holdfast_task_ready",
        "ALTER DATABASE {name} SET jit = off",
        "ALTER DATABASE {name} CONNECTION LIMIT 50",
        "ANALYZE holdfast_node",
    ],
)
def test_a_changed_database_is_not_lent_again(pg_databases: Databases, change: str) -> None:
    with pg_databases.migrated() as first:
        run(first, FILL, change.format(name=urlsplit(first).path[1:]))
    with pg_databases.migrated() as second:
        assert second != first


def test_a_database_with_a_session_is_not_lent_again(pg_databases: Databases) -> None:
    with pg_databases.migrated() as first:
        left = psycopg.connect(first)
    with pg_databases.migrated() as second:
        assert second != first
    left.close()
