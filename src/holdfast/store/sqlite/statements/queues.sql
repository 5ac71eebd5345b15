-- Queues that were paused, with actor and reason.

-- name: pause_queue
-- index: holdfast_queue (primary key)
-- returns: version
INSERT INTO holdfast_queue (name, paused_at, paused_by, reason, version) VALUES (:name, :now, :actor, :reason, 1)
ON CONFLICT (name) DO UPDATE SET paused_at = :now, paused_by = :actor, reason = :reason,
    version = holdfast_queue.version + 1
RETURNING version;

-- name: resume_queue
-- index: holdfast_queue (primary key)
-- returns: version
UPDATE holdfast_queue SET paused_at = NULL, paused_by = NULL, reason = NULL, version = version + 1
WHERE name = :name AND paused_at IS NOT NULL RETURNING version;

-- name: queue_version
-- index: holdfast_queue (primary key)
-- returns: version
SELECT version FROM holdfast_queue WHERE name = :name;

-- name: queues
-- returns: name paused_at paused_by reason version
SELECT name, paused_at, paused_by, reason, version FROM holdfast_queue ORDER BY name;

-- name: oldest_due
-- The earliest due time of the ready or delayed tasks of each queue.
-- index: holdfast_task_ready
-- returns: queue due_at
SELECT queue, min(due_at) AS due_at FROM (
    SELECT q.value AS queue, (SELECT due_at FROM holdfast_task
        WHERE queue = q.value AND priority = p.value AND status = 'queued' AND gate IS NULL
        ORDER BY due_at LIMIT 1) AS due_at
    FROM json_each(:queues) q, json_each('[0,1,2,3]') p)
WHERE due_at IS NOT NULL GROUP BY queue ORDER BY queue;
