"""Collations on PostgreSQL: ids are compared by code point, whatever the collation of the database, and an
index is of use to each join."""

from __future__ import annotations

import re

import asyncpg

from holdfast.store.postgres import connection as postgres
from holdfast.store.sql import load_statements
from tests.conformance.tasks.test_statements import packages

COLUMNS = """
SELECT c.relname || '.' || a.attname FROM pg_attribute a
JOIN pg_class c ON c.oid = a.attrelid JOIN pg_collation o ON o.oid = a.attcollation
WHERE c.relname LIKE 'holdfast%' AND c.relkind = 'r' AND NOT a.attisdropped
    AND (a.attname = 'id' OR a.attname LIKE '%\\_id') AND o.collname <> 'C'
"""
OTHERS = {
    "holdfast_project.id",  # has the collation of the columns that name projects
    "holdfast_task.claim_id",  # compared with parameters only
}
COLLATED = re.compile(r"Join Filter: .*\w\)::text = ")
"""Compares columns of different collations: an index of the column with the cast is of no use to it."""


async def test_ids_are_compared_by_code_point(pg_dsn: str) -> None:
    connection = await asyncpg.connect(pg_dsn)
    found = {row[0] for row in await connection.fetch(COLUMNS)}
    await connection.close()
    assert found == OTHERS


async def test_no_join_reads_a_table_whose_index_has_another_collation(pg_dsn: str) -> None:
    connection = await postgres.connect(pg_dsn)
    for name, text, params in every_statement():
        plan = await generic_plan(connection, text, params)
        assert not COLLATED.search(plan), f"{name}: {plan}"
    await connection.close()


def every_statement() -> list[tuple[str, str, int]]:
    """(name, text, number of parameters)"""
    found = []
    for package, folder in packages("postgres"):
        prefix = "" if package == postgres.PACKAGE else f"{package}:"
        for name in load_statements(package, lambda _: "r", folder):
            statement = postgres.statements()[prefix + name]
            found.append((name, statement.text, len(statement.names)))
    return found


async def generic_plan(connection: postgres.Connection, text: str, params: int) -> str:
    await connection.execute(f"PREPARE planned AS {text}")
    values = f"({', '.join(['NULL'] * params)})" if params else ""
    rows = await connection.fetch(f"EXPLAIN EXECUTE planned{values}")
    await connection.execute("DEALLOCATE planned")
    return "\n".join(row[0] for row in rows)
