-- Proof that a transaction was committed: see `postgres/commits.py`.

-- name: mark_commit
-- For a transaction that writes and has no feed record.
-- index: holdfast_commit_pkey
INSERT INTO holdfast_commit (id) VALUES (:number::text::bigint);

-- name: prune_marks
-- A number starts with milliseconds (`core.ids.Ids.record`). SKIP LOCKED: several processes may prune at once.
-- index: holdfast_commit_pkey
-- returns: id
DELETE FROM holdfast_commit WHERE id IN (
    SELECT id FROM holdfast_commit WHERE id < floor(:before::float8 * 1000)::bigint << 21
    ORDER BY id LIMIT :limit::int FOR UPDATE SKIP LOCKED)
RETURNING id;

-- name: probe_commit
-- Rolled back afterwards.
-- index: holdfast_commit_pkey
INSERT INTO holdfast_commit (id) VALUES (:number::text::bigint);

-- name: probe_record
-- Rolled back afterwards, so that no reader ever sees it.
-- index: holdfast_feed_pkey
INSERT INTO holdfast_feed (id, events_count, at, events_json, deltas_json)
VALUES (:number::text::bigint, 0, 0, '[]', '[]');
