-- Commit marks: prove that a transaction was committed (see `postgres/commits.py`).

-- name: mark_commit
-- Marks a transaction that writes but has no feed record.
-- index: holdfast_commit_pkey
INSERT INTO holdfast_commit (id) VALUES (:number::text::bigint);

-- name: prune_marks
-- The upper bits of an id are milliseconds (`core.ids.Ids.record`). SKIP LOCKED: several processes may prune.
-- index: holdfast_commit_pkey
-- returns: id
DELETE FROM holdfast_commit WHERE id IN (
    SELECT id FROM holdfast_commit WHERE id < floor(:before::float8 * 1000)::bigint << 21
    ORDER BY id LIMIT :limit::int FOR UPDATE SKIP LOCKED)
RETURNING id;

-- name: probe_commit
-- Fails if the mark exists, waits if its transaction is still open. Always rolled back.
-- index: holdfast_commit_pkey
INSERT INTO holdfast_commit (id) VALUES (:number::text::bigint);

-- name: probe_record
-- The same for a feed record. Always rolled back, so no reader sees the row.
-- index: holdfast_feed_pkey
INSERT INTO holdfast_feed (id, events_count, at, events_json, deltas_json)
VALUES (:number::text::bigint, 0, 0, '[]', '[]');
