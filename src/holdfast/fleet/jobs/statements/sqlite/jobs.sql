-- Jobs, and the steps of their rollouts.

-- name: lock_job
-- index: holdfast_job (primary key)
-- returns: {job}
SELECT {job} FROM holdfast_job WHERE id = :id;

-- name: get_job
-- index: holdfast_job (primary key)
-- returns: {job}
SELECT {job} FROM holdfast_job WHERE id = :id;

-- name: write_job
-- What changes after the creation. The row is locked.
-- index: holdfast_job (primary key)
UPDATE holdfast_job SET
    spec_json = :spec_json, digest = :digest, approval_state = :approval_state, approval_id = :approval_id,
    excluded_voters_json = :excluded_voters_json, editors_json = :editors_json, status = :status,
    halt_json = :halt_json, rollout_json = :rollout_json, counts_json = :counts_json,
    break_glass_json = :break_glass_json, started_at = :started_at, finished_at = :finished_at, due_at = :due_at,
    version = :version
WHERE id = :id;

-- name: jobs_due
-- index: holdfast_job_due
-- returns: id
SELECT id FROM holdfast_job WHERE finished_at IS NULL AND due_at IS NOT NULL AND due_at <= :now
ORDER BY due_at LIMIT :limit;

-- name: next_job_due
-- index: holdfast_job_due
-- returns: due_at
SELECT due_at FROM holdfast_job WHERE finished_at IS NULL AND due_at IS NOT NULL ORDER BY due_at LIMIT 1;

-- name: jobs_with_ends
-- Jobs with ends that their rollouts have not counted, one look at the index for each job.
-- index: holdfast_execution_ended
-- returns: id
WITH RECURSIVE found(id) AS (
    SELECT min(job_id) FROM holdfast_execution WHERE ended_at IS NOT NULL AND tallied = 0
    UNION ALL
    SELECT (SELECT min(e.job_id) FROM holdfast_execution e
            WHERE e.ended_at IS NOT NULL AND e.tallied = 0 AND e.job_id > found.id)
    FROM found WHERE found.id IS NOT NULL
)
SELECT id FROM found WHERE id IS NOT NULL LIMIT :limit;
