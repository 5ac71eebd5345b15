-- What the fleet forgets: whole jobs, hosts that were removed, blocks that have ended, entries of the outbox.

-- name: finished_jobs
-- A job that skipped its approval stays until it is reviewed: it keeps others from skipping theirs.
-- index: holdfast_job_finished
-- returns: id finished_at
SELECT id, finished_at FROM holdfast_job
WHERE finished_at IS NOT NULL AND finished_at < :before AND (finished_at, id) > (:after_at, :after_id)
  AND (break_glass_json IS NULL OR json_extract(break_glass_json, '$.reviewed_by') IS NOT NULL)
ORDER BY finished_at, id LIMIT :limit;

-- name: lock_finished_job
-- index: holdfast_job (primary key)
-- returns: id
SELECT id FROM holdfast_job WHERE id = :id AND finished_at IS NOT NULL;

-- name: executions_to_forget
-- index: holdfast_execution_job
-- returns: task_id
SELECT task_id FROM holdfast_execution WHERE job_id = :job_id
ORDER BY nth LIMIT :limit;

-- name: forget_executions
-- Those whose tasks are gone.
-- index: holdfast_execution (primary key), holdfast_task (primary key)
-- returns: task_id output_json
DELETE FROM holdfast_execution AS e
WHERE e.task_id IN (SELECT value FROM json_each(:ids)) AND NOT EXISTS (SELECT 1 FROM holdfast_task t WHERE t.id = e.task_id)
RETURNING task_id, output_json;

-- name: unended_execution
-- index: holdfast_execution_job
-- returns: task_id
SELECT task_id FROM holdfast_execution WHERE job_id = :job_id AND ended_at IS NULL LIMIT 1;

-- name: any_execution
-- index: holdfast_execution_job
-- returns: task_id
SELECT task_id FROM holdfast_execution WHERE job_id = :job_id LIMIT 1;

-- name: forget_outbox_of
-- index: holdfast_outbox_subject
DELETE FROM holdfast_outbox WHERE subject IN (SELECT value FROM json_each(:subjects));

-- name: forget_votes
-- index: holdfast_approval_job, holdfast_vote (primary key)
DELETE FROM holdfast_vote
WHERE approval_id IN (SELECT id FROM holdfast_approval WHERE job_id = :job_id);

-- name: forget_approvals
-- index: holdfast_approval_job
DELETE FROM holdfast_approval WHERE job_id = :job_id;

-- name: forget_job
-- index: holdfast_job (primary key)
DELETE FROM holdfast_job WHERE id = :id;

-- name: release_blobs
-- index: holdfast_blob (primary key)
UPDATE holdfast_blob AS b SET refs = b.refs - r.n FROM {rows: digest text, n bigint} WHERE b.sha256 = r.digest;

-- name: forget_blobs
-- index: holdfast_blob (primary key)
DELETE FROM holdfast_blob WHERE sha256 IN (SELECT value FROM json_each(:ids)) AND refs <= 0;

-- name: forget_outbox
-- Entries that are done.
-- index: holdfast_outbox_done
-- returns: gone
DELETE FROM holdfast_outbox WHERE id IN (
    SELECT id FROM holdfast_outbox WHERE done_at IS NOT NULL AND done_at < :before
    ORDER BY done_at LIMIT :limit)
RETURNING 1 AS gone;

-- name: forget_blocks
-- index: holdfast_block_lifted
-- returns: gone
DELETE FROM holdfast_block WHERE id IN (
    SELECT id FROM holdfast_block WHERE lifted_at IS NOT NULL AND lifted_at < :before
    ORDER BY lifted_at LIMIT :limit)
RETURNING 1 AS gone;

-- name: forget_hosts
-- Hosts that were removed, that no execution of a job before `job` names, and whose slot is free.
-- index: holdfast_host_gone, holdfast_job (primary key), holdfast_execution_target, holdfast_lease (primary key)
-- returns: id
DELETE FROM holdfast_host WHERE id IN (
    SELECT h.id FROM holdfast_host h
    WHERE h.state = 'gone' AND h.updated_at < :before
      AND NOT EXISTS (SELECT 1 FROM holdfast_job j
                      JOIN holdfast_execution e ON e.job_id || '/' || e.host_id = j.id || '/' || h.id
                      WHERE j.id < :job)
      AND NOT EXISTS (SELECT 1 FROM holdfast_lease l
                      WHERE l.resource = :slot || h.id AND l.claim_id IS NOT NULL)
    ORDER BY h.updated_at LIMIT :limit)
RETURNING id;

-- name: forget_agents
-- index: holdfast_agent (primary key)
DELETE FROM holdfast_agent WHERE host_id IN (SELECT value FROM json_each(:ids));
