-- New jobs with their executions.

-- name: add_job
-- No row: the project has a job with the external id.
-- index: holdfast_job_external
-- returns: id
INSERT INTO holdfast_job ({job}) VALUES ({job?})
ON CONFLICT (project, external_id) WHERE external_id IS NOT NULL DO NOTHING
RETURNING id;

-- name: job_by_external_id
-- index: holdfast_job_external
-- returns: {job}
SELECT {job} FROM holdfast_job WHERE project = :project AND external_id = :external_id;

-- name: add_execution_tasks
-- index: holdfast_task (primary key)
INSERT INTO holdfast_task (id, type, queue, priority, status, payload_json, options_json, max_attempts,
    created_at, updated_at, due_at, project, assigned_to, history)
SELECT r.task_id, :type, :queue, :priority, 'blocked', :payload_json, :options_json, :max_attempts,
    :now, :now, :now, :project, r.host_id, :record_id
FROM {rows: task_id text, nth integer, host_id text, host text};

-- name: add_executions
-- index: holdfast_execution (primary key)
INSERT INTO holdfast_execution (task_id, job_id, nth, host_id, host)
SELECT r.task_id, :job_id, r.nth, r.host_id, r.host
FROM {rows: task_id text, nth integer, host_id text, host text};

-- name: blocks_in_force
-- Those that count now by their times. Their windows are judged by the core.
-- index: holdfast_block_active
-- returns: {block}
SELECT {block} FROM holdfast_block
WHERE project = :project AND lifted_at IS NULL AND (expires_at IS NULL OR expires_at > :now) ORDER BY id;
