-- What is shown of jobs and their executions.

-- name: jobs_page
-- The latest first: ids rise with time. Of a host: each job is looked at, by holdfast_execution_target.
-- index: holdfast_job (primary key)
-- returns: {job}
SELECT {job} FROM holdfast_job
WHERE id < :before
  AND (:projects IS NULL OR project IN (SELECT value FROM json_each(:projects)))
  AND (:status IS NULL OR status = :status)
  AND (:parent_id IS NULL OR parent_id = :parent_id)
  AND (:host_id IS NULL OR EXISTS (
    SELECT 1 FROM holdfast_execution e WHERE e.job_id || '/' || e.host_id = holdfast_job.id || '/' || :host_id))
ORDER BY id DESC LIMIT :limit;

-- name: executions_page
-- index: holdfast_execution_job
-- returns: {execution}
SELECT {execution} FROM holdfast_execution
WHERE job_id = :job_id AND nth > :after
  AND (:wave IS NULL OR wave = :wave) AND (:host IS NULL OR host = :host OR host_id = :host)
ORDER BY nth LIMIT :limit;

-- name: open_facts
-- Admitted executions that have not ended, by what their kind follows from.
-- index: holdfast_execution_open
-- returns: status phase held_by_block is_held service is_busy away n
SELECT t.status, json_extract(t.progress_json, '$.phase') AS phase,
    coalesce(t.held_by LIKE 'block:%', 0) AS held_by_block, t.held_by IS NOT NULL AS is_held,
    {host_service} AS service,
    coalesce(l.claim_id <> e.task_id, 0) AS is_busy, e.away, count(*) AS n
FROM holdfast_execution e
JOIN holdfast_task t ON t.id = e.task_id
LEFT JOIN holdfast_host h ON h.id = e.host_id
LEFT JOIN holdfast_agent a ON a.host_id = e.host_id
LEFT JOIN holdfast_lease l ON l.resource = :slot || e.host_id
WHERE e.job_id = :job_id AND e.wave IS NOT NULL AND e.ended_at IS NULL
GROUP BY 1, 2, 3, 4, 5, 6, 7;

-- name: ended_facts
-- Ends that the rollout has not counted, by what their kind follows from.
-- index: holdfast_execution_ended
-- returns: status failure_kind outcome has_go n
SELECT t.status, json_extract(t.failure_json, '$.kind') AS failure_kind, e.outcome, e.go_at IS NOT NULL AS has_go,
    count(*) AS n
FROM holdfast_execution e
JOIN holdfast_task t ON t.id = e.task_id
WHERE e.job_id = :job_id AND e.ended_at IS NOT NULL AND e.tallied = 0
GROUP BY 1, 2, 3, 4;

-- name: adopted_facts
-- Executions that have completed after they were counted, by what their kind followed from before. The next step of
-- the job corrects its counters.
-- index: holdfast_execution_changed, holdfast_task (primary key)
-- returns: failure_kind outcome has_go n
SELECT json_extract(t.failure_json, '$.kind') AS failure_kind, e.outcome, e.go_at IS NOT NULL AS has_go, count(*) AS n
FROM holdfast_execution e
JOIN holdfast_task t ON t.id = e.task_id
WHERE e.job_id = :job_id AND e.tallied = 2 AND t.status = 'completed'
GROUP BY 1, 2, 3;

-- name: count_outcome
-- index: holdfast_execution_job
-- returns: n
SELECT count(*) AS n FROM holdfast_execution WHERE job_id = :job_id AND outcome = :outcome AND tallied > 0;

-- name: target_hosts
-- Whether hosts answer, and what has their slots.
-- index: holdfast_host (primary key)
-- returns: id driver state seen_at holder unreachable_at service
SELECT h.id, h.driver, h.state, a.seen_at, l.claim_id AS holder, h.unreachable_at,
    {host_service} AS service
FROM holdfast_host h
LEFT JOIN holdfast_agent a ON a.host_id = h.id
LEFT JOIN holdfast_lease l ON l.resource = :slot || h.id
WHERE h.id IN (SELECT value FROM json_each(:ids));

-- name: jobs_by_external_id
-- One for each project at most.
-- index: holdfast_job_external
-- returns: {job}
SELECT {job} FROM holdfast_job WHERE external_id = :external_id AND (:projects IS NULL OR project IN (SELECT value FROM json_each(:projects)));

-- name: pinned_names
-- index: holdfast_execution_job
-- returns: host_id host
SELECT host_id, host FROM holdfast_execution WHERE job_id = :job_id ORDER BY nth;

-- name: cells_page
-- What the kind of each execution follows from.
-- index: holdfast_execution_job
-- returns: nth outcome has_go status phase failure_kind held_by_block is_held service is_busy away
SELECT e.nth, e.outcome, e.go_at IS NOT NULL AS has_go, t.status, json_extract(t.progress_json, '$.phase') AS phase,
    json_extract(t.failure_json, '$.kind') AS failure_kind, coalesce(t.held_by LIKE 'block:%', 0) AS held_by_block,
    t.held_by IS NOT NULL AS is_held,
    {host_service} AS service,
    coalesce(l.claim_id <> e.task_id, 0) AS is_busy, e.away
FROM holdfast_execution e
JOIN holdfast_task t ON t.id = e.task_id
LEFT JOIN holdfast_host h ON h.id = e.host_id
LEFT JOIN holdfast_agent a ON a.host_id = e.host_id
LEFT JOIN holdfast_lease l ON l.resource = :slot || e.host_id
WHERE e.job_id = :job_id AND e.nth > :after
ORDER BY e.nth LIMIT :limit;

-- name: target_labels
-- index: holdfast_execution_job
-- returns: host labels_json
SELECT e.host, h.labels_json FROM holdfast_execution e LEFT JOIN holdfast_host h ON h.id = e.host_id
WHERE e.job_id = :job_id ORDER BY e.nth;
