-- Executions of jobs, beside their tasks.

-- name: ended_executions
-- Ends that the rollout has not counted.
-- index: holdfast_execution_ended
-- returns: {execution}
SELECT {execution} FROM holdfast_execution
WHERE job_id = :job_id AND ended_at IS NOT NULL AND tallied = 0 LIMIT :limit;

-- name: changed_executions
-- Ends that the rollout has counted, and that have changed since.
-- index: holdfast_execution_changed
-- returns: {execution}
SELECT {execution} FROM holdfast_execution WHERE job_id = :job_id AND tallied = 2 LIMIT :limit;

-- name: tally_executions
-- index: holdfast_execution (primary key)
UPDATE holdfast_execution SET tallied = 1 WHERE task_id IN (SELECT value FROM json_each(:ids));

-- name: recount_executions
-- Of ends that were counted as failures just now, those that operators have changed before their rows were locked. It
-- reads the tasks again, so it follows `tally_executions`.
-- index: holdfast_execution (primary key), holdfast_task (primary key)
UPDATE holdfast_execution AS e SET tallied = 2 FROM holdfast_task t
WHERE e.task_id IN (SELECT value FROM json_each(:ids)) AND t.id = e.task_id AND t.status = 'completed';

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

-- name: window_executions
-- Those that are in the window of the rollout: only they are offered.
-- index: holdfast_execution_open
-- returns: {execution}
SELECT {execution} FROM holdfast_execution
WHERE job_id = :job_id AND wave IS NOT NULL AND ended_at IS NULL AND away = 0;

-- name: admit_executions
-- index: holdfast_execution (primary key)
UPDATE holdfast_execution SET wave = :wave WHERE task_id IN (SELECT value FROM json_each(:ids));

-- name: move_executions
-- These leave the window of the rollout, or return to it.
-- index: holdfast_execution (primary key)
UPDATE holdfast_execution SET away = :away WHERE task_id IN (SELECT value FROM json_each(:ids));

-- name: explain_executions
-- Why these executions have ended, or what holds them.
-- index: holdfast_execution (primary key)
UPDATE holdfast_execution AS e SET outcome = r.outcome, detail = r.detail, block_id = r.block_id
FROM {rows: task_id text, outcome text, detail text, block_id text}
WHERE e.task_id = r.task_id;

-- name: open_standings
-- Admitted executions whose outcome is unknown, whose host was removed since the job was made, or that change sides: in
-- the window and not able to run, or away and able to run.
-- index: holdfast_execution_open
-- returns: nth task_id status away is_gone
SELECT e.nth, e.task_id, t.status, e.away,
    coalesce(h.state = 'gone' OR h.returned_at > :made_at, h.id IS NULL) AS is_gone
FROM holdfast_execution e
JOIN holdfast_task t ON t.id = e.task_id
LEFT JOIN holdfast_host h ON h.id = e.host_id
LEFT JOIN holdfast_agent a ON a.host_id = e.host_id
WHERE e.job_id = :job_id AND e.wave IS NOT NULL AND e.ended_at IS NULL
  AND (t.status = 'stuck' OR (t.status IN ('queued', 'paused') AND (
    coalesce(h.state = 'gone' OR h.returned_at > :made_at, h.id IS NULL) OR (e.away = 1) = (
    t.status = 'queued' AND t.held_by IS NULL AND {host_service} = 'ready'))));

-- name: pinned_hosts
-- index: holdfast_execution_job
-- returns: host_id
SELECT host_id FROM holdfast_execution WHERE job_id = :job_id ORDER BY nth;

-- name: get_execution
-- index: holdfast_execution (primary key)
-- returns: {execution}
SELECT {execution} FROM holdfast_execution WHERE task_id = :task_id;
