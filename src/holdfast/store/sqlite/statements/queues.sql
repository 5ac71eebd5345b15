-- Queues that were paused, with actor and reason.

-- name: pause_queue
-- index: holdfast_queue (primary key)
INSERT INTO holdfast_queue (name, paused_at, paused_by, reason) VALUES (:name, :now, :actor, :reason)
ON CONFLICT (name) DO UPDATE SET paused_at = :now, paused_by = :actor, reason = :reason;

-- name: resume_queue
-- index: holdfast_queue (primary key)
-- returns: name
UPDATE holdfast_queue SET paused_at = NULL, paused_by = NULL, reason = NULL
WHERE name = :name AND paused_at IS NOT NULL RETURNING name;

-- name: queues
-- returns: name paused_at paused_by reason
SELECT name, paused_at, paused_by, reason FROM holdfast_queue ORDER BY name;
