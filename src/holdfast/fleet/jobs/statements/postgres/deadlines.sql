-- Blocks and the executions that they hold or end.

-- name: held_executions
-- index: holdfast_execution_held
-- returns: block_id job_id
SELECT DISTINCT block_id, job_id FROM holdfast_execution WHERE block_id IS NOT NULL AND ended_at IS NULL;

-- name: held_of_job
-- index: holdfast_execution_held
-- returns: {execution}
SELECT {execution} FROM holdfast_execution
WHERE block_id = :block_id::text AND job_id = :job_id::text AND ended_at IS NULL
LIMIT :limit::int;

-- name: hold_for_approval
-- All that a block has held of a job waits for the approval of the job now.
-- index: holdfast_execution_held
-- returns: task_id
UPDATE holdfast_execution SET block_id = :approval_id::text, detail = :detail::text
WHERE block_id = :block_id::text AND job_id = :job_id::text AND ended_at IS NULL
RETURNING task_id;

-- name: blocks_by_id
-- index: holdfast_block_pkey
-- returns: {block}
SELECT {block} FROM holdfast_block WHERE id = ANY(:ids::text[]);

-- name: stopping_blocks
-- index: holdfast_block_active
-- returns: {block}
SELECT {block} FROM holdfast_block WHERE lifted_at IS NULL AND on_running = 'abort' ORDER BY project, id LIMIT :limit::int;

-- name: running_targets
-- What runs of the open jobs of a project: one execution for each host at most.
-- index: holdfast_job_open, holdfast_execution_open, holdfast_task_pkey
-- returns: job_id host_id
SELECT e.job_id, e.host_id FROM holdfast_job j
JOIN holdfast_execution e ON e.job_id = j.id AND e.wave IS NOT NULL AND e.ended_at IS NULL
WHERE j.finished_at IS NULL AND j.started_at IS NOT NULL AND j.project = :project::text
    AND (SELECT t.status FROM holdfast_task t WHERE t.id = e.task_id) IN ('running', 'stuck');

-- name: running_executions
-- index: holdfast_execution_job, holdfast_task_pkey
-- returns: {execution}
SELECT {execution:e} FROM holdfast_execution e
WHERE e.job_id = :job_id::text AND e.nth > :after::int AND e.wave IS NOT NULL AND e.ended_at IS NULL
    AND (SELECT t.status FROM holdfast_task t WHERE t.id = e.task_id) IN ('running', 'stuck')
ORDER BY e.nth LIMIT :limit::int;
