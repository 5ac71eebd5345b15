"""A PostgreSQL store with many tasks, written in bulk: most are completed, a few wait, fail or are rare."""

from __future__ import annotations

import time

import asyncpg

SPACING_SECONDS = 0.05
TASKS = """
INSERT INTO holdfast_task (id, type, queue, priority, status, payload_json, options_json, attempts,
    max_attempts, created_at, updated_at, due_at, started_at, finished_at, result_json, failure_json,
    fingerprint, version, fence)
SELECT substr(h, 1, 8) || '-' || substr(h, 9, 4) || '-7' || substr(m, 1, 3) || '-8' || substr(m, 4, 3) || '-'
        || substr(m, 7, 12),
    CASE WHEN g % 100000 = 7 THEN 'rare.type' ELSE (ARRAY['email.send', 'invoice.render', 'invoice.mail',
        'report.render', 'geo.lookup', 'image.resize'])[1 + g % 6] END,
    (ARRAY['default', 'mail', 'reports'])[1 + g % 3], 2, s, '{"customer": "customer-' || g || '"}', '{}',
    CASE WHEN s = 'queued' THEN 0 ELSE 1 END, 3, at, at + 1, at + 86400, CASE WHEN s <> 'queued' THEN at END,
    CASE WHEN s <> 'queued' THEN at + 1 END, CASE WHEN s = 'completed' THEN '"sent"' END,
    CASE WHEN s = 'failed' THEN '{"message": "connection refused", "kind": "error"}' END,
    CASE WHEN s = 'failed' THEN 'fp' || g % 5 END, 3, 1
FROM (SELECT g, now - (n - g) * $2::float8 AS at, md5(g::text) AS m,
        lpad(to_hex(((now - (n - g) * $2::float8) * 1000)::bigint), 12, '0') AS h,
        CASE WHEN g % 1000 = 1 THEN 'failed' WHEN g % 1000 = 2 THEN 'aborted' WHEN g % 20 = 3 THEN 'queued'
            ELSE 'completed' END AS s
    FROM (SELECT $1::int AS n, $3::float8 AS now) AS given, generate_series(1, $1::int) AS g) AS made
"""
COUNTED = """
INSERT INTO holdfast_counter
SELECT project, queue, type, priority, status, count(*) FROM holdfast_task GROUP BY 1, 2, 3, 4, 5
"""


async def fill(dsn: str, tasks: int) -> None:
    """Into the empty tables of Holdfast."""
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(TASKS, tasks, SPACING_SECONDS, time.time())
        await connection.execute(COUNTED)
        await connection.execute("VACUUM ANALYZE holdfast_task")
    finally:
        await connection.close()
