"""Statistics of the tables that grow."""

from __future__ import annotations

from proof.lab.databases import query

TABLES = """
SELECT relname AS name, n_dead_tup AS dead, autovacuum_count AS vacuums, pg_table_size(relid) AS bytes,
    pg_indexes_size(relid) AS index_bytes
FROM pg_stat_user_tables WHERE relname IN ('holdfast_task', 'holdfast_feed')
"""
COUNTS = "SELECT (SELECT count(*) FROM holdfast_task), (SELECT count(*) FROM holdfast_feed)"


def tables(url: str) -> dict[str, dict[str, int]]:
    """Sizes of the tables that grow, and their dead rows."""
    rows = [dict(row) for row in query(url, TABLES)]
    return {row.pop("name"): row for row in rows}


def counts(url: str) -> dict[str, int]:
    """Rows of the tables that grow."""
    tasks, records = query(url, COUNTS)[0]
    return {"tasks": tasks, "records": records}


def megabytes(url: str) -> float:
    """Size of tasks and feed with their indexes; in SQLite the whole file without free pages."""
    if url.startswith("sqlite"):
        pages, free, size = (
            query(url, f"PRAGMA {name}")[0][0]
            for name in ("page_count", "freelist_count", "page_size")
        )
        return float((pages - free) * size / 1e6)
    return sum(table["bytes"] + table["index_bytes"] for table in tables(url).values()) / 1e6
