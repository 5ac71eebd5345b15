-- Changes of many tasks as runs.

-- name: add_bulk_run
-- index: holdfast_bulk_run_pkey
INSERT INTO holdfast_bulk_run (id, spec_json, ids_json, state, total, done, failed, errors_json, detail,
    created_at, updated_at, next_at, version, progress_json)
VALUES (:id::text, :spec_json::text, :ids_json::text, :state::text, :total::bigint, 0, :failed::bigint, :errors_json::text, '',
    :now::float8, :now::float8, :now::float8, 1, :progress_json::text);

-- name: bulk_run
-- index: holdfast_bulk_run_pkey
-- returns: id spec_json state total done failed errors_json detail created_at updated_at next_at version progress_json
SELECT id, spec_json, state, total, done, failed, errors_json, detail, created_at, updated_at,
    next_at, version, progress_json
FROM holdfast_bulk_run WHERE id = :id::text;

-- name: lock_bulk_run
-- index: holdfast_bulk_run_pkey
-- returns: id spec_json state total done failed errors_json detail created_at updated_at next_at version progress_json
SELECT id, spec_json, state, total, done, failed, errors_json, detail, created_at, updated_at,
    next_at, version, progress_json
FROM holdfast_bulk_run WHERE id = :id::text FOR UPDATE;

-- name: bulk_ids
-- index: holdfast_bulk_run_pkey
-- returns: ids_json
SELECT ids_json FROM holdfast_bulk_run WHERE id = :id::text;

-- name: dead_since
-- Of a replay: how many of these tasks have died since it was made.
-- index: holdfast_task_pkey
-- returns: n
SELECT count(*) AS n FROM holdfast_task
WHERE id = ANY(:ids::text[]) AND status = 'failed' AND finished_at > :since::double precision;

-- name: write_bulk_run
-- index: holdfast_bulk_run_pkey
UPDATE holdfast_bulk_run SET state = :state::text, done = :done::bigint, failed = :failed::bigint,
    errors_json = :errors_json::text, detail = :detail::text, updated_at = :updated_at::float8, version = :version::bigint,
    next_at = :next_at::float8, progress_json = :progress_json::text
WHERE id = :id::text;

-- name: bulk_runs
-- Latest first: ids rise with time.
-- index: holdfast_bulk_run_pkey
-- returns: id spec_json state total done failed errors_json detail created_at updated_at next_at version progress_json
SELECT id, spec_json, state, total, done, failed, errors_json, detail, created_at, updated_at,
    next_at, version, progress_json
FROM holdfast_bulk_run WHERE id < :before::text ORDER BY id DESC LIMIT :limit::int;

-- name: idle_bulk_runs
-- Runs of which no batch was tried for a while after it was due. The longest wait comes first.
-- index: holdfast_bulk_run_running
-- returns: id
SELECT id FROM holdfast_bulk_run WHERE state = 'running' AND next_at < :before::float8
ORDER BY next_at LIMIT :limit::int;

-- name: take_bulk_run
-- Moves an idle run behind the others. No row: another process was first.
-- index: holdfast_bulk_run_pkey
-- returns: id
UPDATE holdfast_bulk_run SET next_at = :now::float8
WHERE id = :id::text AND state = 'running' AND next_at < :before::float8
RETURNING id;

-- name: delay_bulk_run
-- After a try that failed. The version stays: it is that of the figures.
-- index: holdfast_bulk_run_pkey
UPDATE holdfast_bulk_run SET next_at = :now::float8, detail = :detail::text
WHERE id = :id::text AND state = 'running' AND version = :version::bigint;
