-- Changes of many tasks as runs.

-- name: add_bulk_run
-- index: holdfast_bulk_run_pkey
INSERT INTO holdfast_bulk_run (id, spec_json, ids_json, state, total, done, failed, errors_json, detail,
    created_at, updated_at, version)
VALUES (:id::text, :spec_json::text, :ids_json::text, :state::text, :total::bigint, 0, 0, :errors_json::text, '',
    :now::float8, :now::float8, 1);

-- name: bulk_run
-- index: holdfast_bulk_run_pkey
-- returns: id spec_json state total done failed errors_json detail created_at updated_at version
SELECT id, spec_json, state, total, done, failed, errors_json, detail, created_at, updated_at, version
FROM holdfast_bulk_run WHERE id = :id::text;

-- name: lock_bulk_run
-- index: holdfast_bulk_run_pkey
-- returns: id spec_json state total done failed errors_json detail created_at updated_at version
SELECT id, spec_json, state, total, done, failed, errors_json, detail, created_at, updated_at, version
FROM holdfast_bulk_run WHERE id = :id::text FOR UPDATE;

-- name: bulk_ids
-- index: holdfast_bulk_run_pkey
-- returns: ids_json
SELECT ids_json FROM holdfast_bulk_run WHERE id = :id::text;

-- name: write_bulk_run
-- index: holdfast_bulk_run_pkey
UPDATE holdfast_bulk_run SET state = :state::text, done = :done::bigint, failed = :failed::bigint,
    errors_json = :errors_json::text, detail = :detail::text, updated_at = :updated_at::float8, version = :version::bigint
WHERE id = :id::text;

-- name: bulk_runs
-- Latest first: ids rise with time.
-- index: holdfast_bulk_run_pkey
-- returns: id spec_json state total done failed errors_json detail created_at updated_at version
SELECT id, spec_json, state, total, done, failed, errors_json, detail, created_at, updated_at, version
FROM holdfast_bulk_run WHERE id < :before::text ORDER BY id DESC LIMIT :limit::int;

-- name: idle_bulk_runs
-- Runs that nothing has advanced for a while.
-- index: holdfast_bulk_run_running
-- returns: id
SELECT id FROM holdfast_bulk_run WHERE state = 'running' AND updated_at < :before::float8
ORDER BY updated_at LIMIT :limit::int;
