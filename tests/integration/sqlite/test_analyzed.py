"""The plans of a file on which ANALYZE was run while no task was running."""

from __future__ import annotations

import re

import apsw
import pytest

from holdfast.store.sqlite import connection as sqlite

IDLE = """
INSERT INTO holdfast_task (id, type, queue, priority, status, payload_json, options_json, max_attempts,
    created_at, updated_at, due_at)
WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000)
SELECT printf('task-%06d', i), 'noop', 'default', 2, 'queued', '{}', '{}', 3, i, i, i FROM n;
INSERT INTO holdfast_feed
WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20)
SELECT i, 1, i, '[]', '[]' FROM n;
ANALYZE;
"""
NAMES = re.compile(r"(?<![:\w']):([a-z_]+)")
DIFFER = {
    "prune_feed",  # It reads the retained records.
    "log_sync_changes",  # They read the projects, which are few.
    "trim_sync_log",
}


def plan(connection: apsw.Connection, text: str) -> list[str]:
    params = dict.fromkeys(NAMES.findall(text))
    return [str(row[3]) for row in connection.execute(f"EXPLAIN QUERY PLAN {text}", params)]


@pytest.fixture(scope="module")
def fresh() -> apsw.Connection:
    connection = sqlite.connect(":memory:")
    sqlite.migrate(connection)
    return connection


@pytest.fixture(scope="module")
def analyzed() -> apsw.Connection:
    connection = sqlite.connect(":memory:")
    sqlite.migrate(connection)
    connection.execute(IDLE)
    return connection


@pytest.mark.parametrize("name", sorted(sqlite.statements().keys() - DIFFER))
def test_statistics_of_an_idle_file_do_not_change_a_plan(
    fresh: apsw.Connection, analyzed: apsw.Connection, name: str
) -> None:
    text = sqlite.statements()[name].text
    parts = [text] if "'!" in text else text.split(";")
    for part in parts:
        if part.strip():
            assert plan(analyzed, part) == plan(fresh, part)
