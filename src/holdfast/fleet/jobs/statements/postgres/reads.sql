-- What is shown of jobs and their executions.

-- name: jobs_page
-- The latest first: ids rise with time. Of a host: each job is looked at, by holdfast_execution_target.
-- index: holdfast_job_pkey
-- returns: {job}
SELECT {job} FROM holdfast_job
WHERE id < :before::text
  AND (:projects::text[] IS NULL OR project = ANY(:projects::text[]))
  AND (:status::text IS NULL OR status = :status::text)
  AND (:parent_id::text IS NULL OR parent_id = :parent_id::text)
  AND (:host_id::text IS NULL OR EXISTS (
    SELECT FROM holdfast_execution e WHERE e.job_id || '/' || e.host_id = holdfast_job.id || '/' || :host_id::text))
ORDER BY id DESC LIMIT :limit::int;

-- name: executions_page
-- index: holdfast_execution_job
-- returns: {execution}
SELECT {execution} FROM holdfast_execution
WHERE job_id = :job_id::text AND nth > :after::bigint
  AND (:wave::bigint IS NULL OR wave = :wave::bigint) AND (:host::text IS NULL OR host = :host::text OR host_id = :host::text)
ORDER BY nth LIMIT :limit::int;

-- name: open_facts
-- Admitted executions that have not ended, by what their kind follows from.
-- index: holdfast_execution_open
-- returns: status phase held_by_block is_held service is_busy away n
WITH open AS MATERIALIZED (
    SELECT task_id, host_id, away FROM holdfast_execution
    WHERE job_id = :job_id::text AND wave IS NOT NULL AND ended_at IS NULL
)
SELECT t.status, t.progress_json::jsonb ->> 'phase' AS phase,
    coalesce(t.held_by LIKE 'block:%', false)::int AS held_by_block, (t.held_by IS NOT NULL)::int AS is_held,
    {host_service} AS service,
    coalesce(l.claim_id <> e.task_id, false)::int AS is_busy, e.away, count(*) AS n
FROM open e
JOIN holdfast_task t ON t.id = e.task_id
LEFT JOIN holdfast_host h ON h.id = e.host_id
LEFT JOIN holdfast_agent a ON a.host_id = e.host_id
LEFT JOIN holdfast_lease l ON l.resource = :slot::text || e.host_id
GROUP BY 1, 2, 3, 4, 5, 6, 7;

-- name: ended_facts
-- Ends that the rollout has not counted, by what their kind follows from.
-- index: holdfast_execution_ended
-- returns: status failure_kind outcome has_go n
WITH ended AS MATERIALIZED (
    SELECT task_id, outcome, go_at FROM holdfast_execution
    WHERE job_id = :job_id::text AND ended_at IS NOT NULL AND tallied = 0
)
SELECT t.status, t.failure_json::jsonb ->> 'kind' AS failure_kind, e.outcome, (e.go_at IS NOT NULL)::int AS has_go,
    count(*) AS n
FROM ended e
JOIN holdfast_task t ON t.id = e.task_id
GROUP BY 1, 2, 3, 4;

-- name: adopted_facts
-- Executions that have completed after they were counted, by what their kind followed from before. The next step of
-- the job corrects its counters.
-- index: holdfast_execution_changed, holdfast_task_pkey
-- returns: failure_kind outcome has_go n
SELECT t.failure_json::jsonb ->> 'kind' AS failure_kind, e.outcome, (e.go_at IS NOT NULL)::int AS has_go, count(*) AS n
FROM holdfast_execution e
JOIN holdfast_task t ON t.id = e.task_id
WHERE e.job_id = :job_id::text AND e.tallied = 2 AND t.status = 'completed'
GROUP BY 1, 2, 3;

-- name: count_outcome
-- index: holdfast_execution_job
-- returns: n
SELECT count(*) AS n FROM holdfast_execution WHERE job_id = :job_id::text AND outcome = :outcome::text AND tallied > 0;

-- name: target_hosts
-- Whether hosts answer, and what has their slots.
-- index: holdfast_host_pkey
-- returns: id driver state seen_at holder unreachable_at service
SELECT h.id, h.driver, h.state, a.seen_at, l.claim_id AS holder, h.unreachable_at,
    {host_service} AS service
FROM holdfast_host h
LEFT JOIN holdfast_agent a ON a.host_id = h.id
LEFT JOIN holdfast_lease l ON l.resource = :slot::text || h.id
WHERE h.id = ANY(:ids::text[]);

-- name: jobs_by_external_id
-- One for each project at most.
-- index: holdfast_job_external
-- returns: {job}
SELECT {job} FROM holdfast_job WHERE external_id = :external_id::text AND (:projects::text[] IS NULL OR project = ANY(:projects::text[]));

-- name: pinned_names
-- index: holdfast_execution_job
-- returns: host_id host
SELECT host_id, host FROM holdfast_execution WHERE job_id = :job_id::text ORDER BY nth;

-- name: cells_page
-- What the kind of each execution follows from.
-- index: holdfast_execution_job
-- returns: nth outcome has_go status phase failure_kind held_by_block is_held service is_busy away
WITH shown AS MATERIALIZED (
    SELECT nth, task_id, host_id, outcome, go_at, away FROM holdfast_execution
    WHERE job_id = :job_id::text AND nth > :after::bigint
    ORDER BY nth LIMIT :limit::int
)
SELECT e.nth, e.outcome, (e.go_at IS NOT NULL)::int AS has_go, t.status, t.progress_json::jsonb ->> 'phase' AS phase,
    t.failure_json::jsonb ->> 'kind' AS failure_kind, coalesce(t.held_by LIKE 'block:%', false)::int AS held_by_block,
    (t.held_by IS NOT NULL)::int AS is_held,
    {host_service} AS service,
    coalesce(l.claim_id <> e.task_id, false)::int AS is_busy, e.away
FROM shown e
JOIN holdfast_task t ON t.id = e.task_id
LEFT JOIN holdfast_host h ON h.id = e.host_id
LEFT JOIN holdfast_agent a ON a.host_id = e.host_id
LEFT JOIN holdfast_lease l ON l.resource = :slot::text || e.host_id
ORDER BY e.nth;

-- name: target_labels
-- index: holdfast_execution_job
-- returns: host labels_json
SELECT e.host, h.labels_json FROM holdfast_execution e LEFT JOIN holdfast_host h ON h.id = e.host_id
WHERE e.job_id = :job_id::text ORDER BY e.nth;
