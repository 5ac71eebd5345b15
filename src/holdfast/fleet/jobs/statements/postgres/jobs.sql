-- Jobs, and the steps of their rollouts.

-- name: lock_job
-- index: holdfast_job_pkey
-- returns: {job}
SELECT {job} FROM holdfast_job WHERE id = :id::text FOR UPDATE;

-- name: get_job
-- index: holdfast_job_pkey
-- returns: {job}
SELECT {job} FROM holdfast_job WHERE id = :id::text;

-- name: write_job
-- What changes after the creation. The row is locked.
-- index: holdfast_job_pkey
UPDATE holdfast_job SET
    spec_json = :spec_json::text, digest = :digest::text, approval_state = :approval_state::text, approval_id = :approval_id::text,
    excluded_voters_json = :excluded_voters_json::text, editors_json = :editors_json::text, status = :status::text,
    halt_json = :halt_json::text, rollout_json = :rollout_json::text, counts_json = :counts_json::text,
    break_glass_json = :break_glass_json::text, started_at = :started_at::float8, finished_at = :finished_at::float8, due_at = :due_at::float8,
    version = :version::bigint
WHERE id = :id::text;

-- name: next_job_due
-- index: holdfast_job_due
-- returns: due_at
SELECT due_at FROM holdfast_job WHERE finished_at IS NULL AND due_at IS NOT NULL ORDER BY due_at LIMIT 1;

-- name: jobs_to_look_at
-- In order: jobs with ends that their rollouts have not counted, one look at the index for each job; jobs with ends that
-- were counted and have changed since; jobs by the time at which they are looked at next.
-- index: holdfast_execution_ended, holdfast_execution_changed, holdfast_job_due
-- returns: place id due_at
WITH RECURSIVE found(id) AS (
    SELECT min(job_id) FROM holdfast_execution WHERE ended_at IS NOT NULL AND tallied = 0
    UNION ALL
    SELECT (SELECT min(e.job_id) FROM holdfast_execution e
            WHERE e.ended_at IS NOT NULL AND e.tallied = 0 AND e.job_id > found.id)
    FROM found WHERE found.id IS NOT NULL
)
(SELECT 1 AS place, id, NULL::float8 AS due_at FROM found WHERE id IS NOT NULL LIMIT :limit::int)
UNION ALL
(SELECT DISTINCT 2 AS place, job_id AS id, NULL::float8 AS due_at FROM holdfast_execution WHERE tallied = 2 LIMIT :limit::int)
UNION ALL
(SELECT 3 AS place, id, due_at FROM holdfast_job WHERE finished_at IS NULL AND due_at IS NOT NULL
    ORDER BY due_at LIMIT :limit::int)
ORDER BY place, due_at;
