-- Changes of many tasks as runs.

-- name: add_bulk_run
-- index: holdfast_bulk_run (primary key)
INSERT INTO holdfast_bulk_run (id, spec_json, ids_json, state, total, done, failed, errors_json, detail,
    created_at, updated_at, next_at, version, progress_json)
VALUES (:id, :spec_json, :ids_json, :state, :total, 0, :failed, :errors_json, '',
    :now, :now, :now, 1, :progress_json);

-- name: bulk_run
-- index: holdfast_bulk_run (primary key)
-- returns: id spec_json state total done failed errors_json detail created_at updated_at next_at version progress_json
SELECT id, spec_json, state, total, done, failed, errors_json, detail, created_at, updated_at,
    next_at, version, progress_json
FROM holdfast_bulk_run WHERE id = :id;

-- name: lock_bulk_run
-- index: holdfast_bulk_run (primary key)
-- returns: id spec_json state total done failed errors_json detail created_at updated_at next_at version progress_json
SELECT id, spec_json, state, total, done, failed, errors_json, detail, created_at, updated_at,
    next_at, version, progress_json
FROM holdfast_bulk_run WHERE id = :id;

-- name: bulk_ids
-- index: holdfast_bulk_run (primary key)
-- returns: ids_json
SELECT ids_json FROM holdfast_bulk_run WHERE id = :id;

-- name: dead_since
-- Of a replay: how many of these tasks have died since it was made.
-- index: holdfast_task (primary key)
-- returns: n
SELECT count(*) AS n FROM holdfast_task
WHERE id IN (SELECT value FROM json_each(:ids)) AND status = 'failed' AND finished_at > :since;

-- name: write_bulk_run
-- index: holdfast_bulk_run (primary key)
UPDATE holdfast_bulk_run SET state = :state, done = :done, failed = :failed,
    errors_json = :errors_json, detail = :detail, updated_at = :updated_at, version = :version,
    next_at = :next_at, progress_json = :progress_json
WHERE id = :id;

-- name: bulk_runs
-- Latest first: ids rise with time.
-- index: holdfast_bulk_run (primary key)
-- returns: id spec_json state total done failed errors_json detail created_at updated_at next_at version progress_json
SELECT id, spec_json, state, total, done, failed, errors_json, detail, created_at, updated_at,
    next_at, version, progress_json
FROM holdfast_bulk_run WHERE id < :before ORDER BY id DESC LIMIT :limit;

-- name: idle_bulk_runs
-- Runs of which no batch was tried for a while after it was due. The longest wait comes first.
-- index: holdfast_bulk_run_running
-- returns: id
SELECT id FROM holdfast_bulk_run WHERE state = 'running' AND next_at < :before
ORDER BY next_at LIMIT :limit;

-- name: take_bulk_run
-- Moves an idle run behind the others. No row: another process was first.
-- index: holdfast_bulk_run (primary key)
-- returns: id
UPDATE holdfast_bulk_run SET next_at = :now
WHERE id = :id AND state = 'running' AND next_at < :before
RETURNING id;

-- name: delay_bulk_run
-- After a try that failed. The version stays: it is that of the figures.
-- index: holdfast_bulk_run (primary key)
UPDATE holdfast_bulk_run SET next_at = :now, detail = :detail
WHERE id = :id AND state = 'running' AND version = :version;
