-- Blocks and the executions that they hold or end.

-- name: held_executions
-- index: holdfast_execution_held
-- returns: block_id job_id
SELECT DISTINCT block_id, job_id FROM holdfast_execution WHERE block_id IS NOT NULL AND ended_at IS NULL;

-- name: held_of_job
-- index: holdfast_execution_held
-- returns: {execution}
SELECT {execution} FROM holdfast_execution
WHERE block_id = :block_id AND job_id = :job_id AND ended_at IS NULL
LIMIT :limit;

-- name: hold_for_approval
-- All that a block has held of a job waits for the approval of the job now.
-- index: holdfast_execution_held
-- returns: task_id
UPDATE holdfast_execution SET block_id = :approval_id, detail = :detail
WHERE block_id = :block_id AND job_id = :job_id AND ended_at IS NULL
RETURNING task_id;

-- name: blocks_by_id
-- index: holdfast_block (primary key)
-- returns: {block}
SELECT {block} FROM holdfast_block WHERE id IN (SELECT value FROM json_each(:ids));

-- name: stopping_blocks
-- index: holdfast_block_active
-- returns: {block}
SELECT {block} FROM holdfast_block WHERE lifted_at IS NULL AND on_running = 'abort' ORDER BY id LIMIT :limit;

-- name: started_jobs
-- index: holdfast_job_open
-- returns: id
SELECT id FROM holdfast_job
WHERE finished_at IS NULL AND started_at IS NOT NULL AND project = :project ORDER BY id;

-- name: open_executions
-- index: holdfast_execution_job
-- returns: {execution}
SELECT {execution} FROM holdfast_execution
WHERE job_id = :job_id AND nth > :after AND wave IS NOT NULL AND ended_at IS NULL
ORDER BY nth LIMIT :limit;
