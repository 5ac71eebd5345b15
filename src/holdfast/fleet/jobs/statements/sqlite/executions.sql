-- Executions of jobs, beside their tasks.

-- name: ended_executions
-- Ends that the rollout has not counted.
-- index: holdfast_execution_ended
-- returns: {execution}
SELECT {execution} FROM holdfast_execution
WHERE job_id = :job_id AND ended_at IS NOT NULL AND tallied = 0 LIMIT :limit;

-- name: tally_executions
-- index: holdfast_execution (primary key)
UPDATE holdfast_execution SET tallied = 1 WHERE task_id IN (SELECT value FROM json_each(:ids));

-- name: executions_by_nth
-- index: holdfast_execution_job
-- returns: {execution}
SELECT {execution} FROM holdfast_execution
WHERE job_id = :job_id AND nth IN (SELECT value FROM json_each(:nths));

-- name: unended_executions
-- index: holdfast_execution_job
-- returns: {execution}
SELECT {execution} FROM holdfast_execution
WHERE job_id = :job_id AND nth > :after AND ended_at IS NULL ORDER BY nth LIMIT :limit;

-- name: admit_executions
-- index: holdfast_execution (primary key)
UPDATE holdfast_execution SET wave = :wave WHERE task_id IN (SELECT value FROM json_each(:ids));

-- name: explain_executions
-- Why these executions have ended, or what holds them.
-- index: holdfast_execution (primary key)
UPDATE holdfast_execution AS e SET outcome = r.outcome, detail = r.detail, block_id = r.block_id
FROM {rows: task_id text, outcome text, detail text, block_id text}
WHERE e.task_id = r.task_id;

-- name: count_open
-- Admitted executions that have not ended: those with an unknown outcome, and those that wait for a host that does
-- not answer, or for a block. Hosts that the server drives need no agent.
-- index: holdfast_execution_open
-- returns: unknown waiting
SELECT coalesce(sum(t.status = 'stuck'), 0) AS unknown,
    coalesce(sum(t.status = 'queued' AND (t.held_by IS NOT NULL OR h.state <> 'active'
        OR (h.driver <> 'ssh' AND (a.seen_at IS NULL OR a.seen_at < :since)))), 0) AS waiting
FROM holdfast_execution e
JOIN holdfast_task t ON t.id = e.task_id
LEFT JOIN holdfast_host h ON h.id = e.host_id
LEFT JOIN holdfast_agent a ON a.host_id = e.host_id
WHERE e.job_id = :job_id AND e.wave IS NOT NULL AND e.ended_at IS NULL;

-- name: pinned_hosts
-- index: holdfast_execution_job
-- returns: host_id
SELECT host_id FROM holdfast_execution WHERE job_id = :job_id ORDER BY nth;

-- name: get_execution
-- index: holdfast_execution (primary key)
-- returns: {execution}
SELECT {execution} FROM holdfast_execution WHERE task_id = :task_id;
