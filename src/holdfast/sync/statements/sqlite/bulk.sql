-- Changes of many tasks as runs.

-- name: add_bulk_run
-- index: holdfast_bulk_run (primary key)
INSERT INTO holdfast_bulk_run (id, spec_json, ids_json, state, total, done, failed, errors_json, detail,
    created_at, updated_at, version)
VALUES (:id, :spec_json, :ids_json, :state, :total, 0, 0, :errors_json, '',
    :now, :now, 1);

-- name: bulk_run
-- index: holdfast_bulk_run (primary key)
-- returns: id spec_json state total done failed errors_json detail created_at updated_at version
SELECT id, spec_json, state, total, done, failed, errors_json, detail, created_at, updated_at, version
FROM holdfast_bulk_run WHERE id = :id;

-- name: lock_bulk_run
-- index: holdfast_bulk_run (primary key)
-- returns: id spec_json state total done failed errors_json detail created_at updated_at version
SELECT id, spec_json, state, total, done, failed, errors_json, detail, created_at, updated_at, version
FROM holdfast_bulk_run WHERE id = :id;

-- name: bulk_ids
-- index: holdfast_bulk_run (primary key)
-- returns: ids_json
SELECT ids_json FROM holdfast_bulk_run WHERE id = :id;

-- name: write_bulk_run
-- index: holdfast_bulk_run (primary key)
UPDATE holdfast_bulk_run SET state = :state, done = :done, failed = :failed,
    errors_json = :errors_json, detail = :detail, updated_at = :updated_at, version = :version
WHERE id = :id;

-- name: bulk_runs
-- Latest first: ids rise with time.
-- index: holdfast_bulk_run (primary key)
-- returns: id spec_json state total done failed errors_json detail created_at updated_at version
SELECT id, spec_json, state, total, done, failed, errors_json, detail, created_at, updated_at, version
FROM holdfast_bulk_run WHERE id < :before ORDER BY id DESC LIMIT :limit;

-- name: idle_bulk_runs
-- Runs that nothing has advanced for a while.
-- index: holdfast_bulk_run_running
-- returns: id
SELECT id FROM holdfast_bulk_run WHERE state = 'running' AND updated_at < :before
ORDER BY updated_at LIMIT :limit;
