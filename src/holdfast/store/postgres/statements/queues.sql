-- Queues that were paused, with actor and reason.

-- name: pause_queue
-- index: holdfast_queue_pkey
-- returns: version
INSERT INTO holdfast_queue (name, paused_at, paused_by, reason, version) VALUES (:name::text, :now::float8, :actor::text, :reason::text, 1)
ON CONFLICT (name) DO UPDATE SET paused_at = :now::float8, paused_by = :actor::text, reason = :reason::text,
    version = holdfast_queue.version + 1
RETURNING version;

-- name: resume_queue
-- index: holdfast_queue_pkey
-- returns: version
UPDATE holdfast_queue SET paused_at = NULL, paused_by = NULL, reason = NULL, version = version + 1
WHERE name = :name::text AND paused_at IS NOT NULL RETURNING version;

-- name: queue_version
-- index: holdfast_queue_pkey
-- returns: version
SELECT version FROM holdfast_queue WHERE name = :name::text;

-- name: queues
-- returns: name paused_at paused_by reason version
SELECT name, paused_at, paused_by, reason, version FROM holdfast_queue ORDER BY name;

-- name: oldest_due
-- The earliest due time of the ready or delayed tasks of each queue.
-- index: holdfast_task_ready
-- returns: queue due_at
SELECT q.name AS queue, min(t.due_at) AS due_at
FROM unnest(:queues::text[]) q(name) CROSS JOIN generate_series(0, 3) p(priority)
CROSS JOIN LATERAL (
    SELECT due_at FROM holdfast_task
    WHERE queue = q.name AND priority = p.priority AND status = 'queued' AND gate IS NULL
    ORDER BY due_at LIMIT 1) t
GROUP BY q.name ORDER BY q.name;
