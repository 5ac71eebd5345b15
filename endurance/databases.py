"""Databases for runs, and what they say about their tables. Foreign sessions: no settings of ours."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import apsw
import asyncpg

TABLES = """
SELECT relname AS name, n_dead_tup AS dead, autovacuum_count AS vacuums, pg_table_size(relid) AS bytes,
    pg_indexes_size(relid) AS index_bytes
FROM pg_stat_user_tables WHERE relname IN ('holdfast_task', 'holdfast_feed')
"""
COUNTS = "SELECT (SELECT count(*) FROM holdfast_task), (SELECT count(*) FROM holdfast_feed)"


async def _query(url: str, text: str) -> list[Any]:
    connection = await asyncpg.connect(url)
    try:
        return await connection.fetch(text)
    finally:
        await connection.close()


def query(url: str, text: str) -> list[Any]:
    """The rows of one statement on a session of its own."""
    if url.startswith("sqlite"):
        connection = apsw.Connection(url.removeprefix("sqlite:///"))
        connection.set_busy_timeout(10_000)
        try:
            return list(connection.execute(text))
        finally:
            connection.close()
    return asyncio.run(_query(url, text))


@contextmanager
def database(postgres: Any, name: str) -> Iterator[str]:
    """An empty database, for a while; its URL."""
    query(postgres.url(), f'CREATE DATABASE "{name}"')
    try:
        yield str(postgres.url(name))
    finally:
        query(postgres.url(), f'DROP DATABASE "{name}" WITH (FORCE)')


def tables(url: str) -> dict[str, dict[str, int]]:
    """Sizes of the tables that grow, and what is dead in them."""
    rows = [dict(row) for row in query(url, TABLES)]
    return {row.pop("name"): row for row in rows}


def counts(url: str) -> dict[str, int]:
    """Rows of the tables that grow."""
    tasks, records = query(url, COUNTS)[0]
    return {"tasks": tasks, "records": records}


def megabytes(url: str) -> float:
    """What tasks and feed take with their indexes; in SQLite the whole file, without pages that are free."""
    if url.startswith("sqlite"):
        pages, free, size = (
            query(url, f"PRAGMA {name}")[0][0]
            for name in ("page_count", "freelist_count", "page_size")
        )
        return float((pages - free) * size / 1e6)
    return sum(each["bytes"] + each["index_bytes"] for each in tables(url).values()) / 1e6
