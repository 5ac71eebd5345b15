-- Limits on concurrency and rate. They are exact across processes, because the row is locked while it is checked.

-- name: ensure_limits
-- An existing row is not changed, and its lock is not waited for.
-- index: holdfast_limit (primary key)
INSERT INTO holdfast_limit (name, rule_json, rule_at)
SELECT name, rule_json, rule_at FROM {rows: name text, rule_json text, rule_at real} WHERE true
ON CONFLICT (name) DO NOTHING;

-- name: lock_limits
-- Includes priority and due time of the first parked task.
-- index: holdfast_limit (primary key), holdfast_task_gate
-- returns: name rule_json running parked full_until opens_at rule_at head_priority head_due_at
SELECT l.name, l.rule_json, l.running, l.parked, l.full_until, l.opens_at, l.rule_at,
    CASE WHEN l.parked > 0 THEN (SELECT t.priority FROM holdfast_task t WHERE t.status = 'queued' AND t.gate = l.name
                                 ORDER BY t.priority, t.due_at LIMIT 1) END AS head_priority,
    CASE WHEN l.parked > 0 THEN (SELECT t.due_at FROM holdfast_task t WHERE t.status = 'queued' AND t.gate = l.name
                                 ORDER BY t.priority, t.due_at LIMIT 1) END AS head_due_at
FROM holdfast_limit l WHERE l.name IN (SELECT value FROM json_each(:names)) ORDER BY l.name;

-- name: lock_free_limits
-- As `lock_limits`. With one writer no row is locked by another transaction.
-- index: holdfast_limit (primary key), holdfast_task_gate
-- returns: name rule_json running parked full_until opens_at rule_at head_priority head_due_at
SELECT l.name, l.rule_json, l.running, l.parked, l.full_until, l.opens_at, l.rule_at,
    CASE WHEN l.parked > 0 THEN (SELECT t.priority FROM holdfast_task t WHERE t.status = 'queued' AND t.gate = l.name
                                 ORDER BY t.priority, t.due_at LIMIT 1) END AS head_priority,
    CASE WHEN l.parked > 0 THEN (SELECT t.due_at FROM holdfast_task t WHERE t.status = 'queued' AND t.gate = l.name
                                 ORDER BY t.priority, t.due_at LIMIT 1) END AS head_due_at
FROM holdfast_limit l WHERE l.name IN (SELECT value FROM json_each(:names)) ORDER BY l.name;

-- name: get_limits
-- index: holdfast_limit (primary key)
-- returns: name rule_json running parked full_until opens_at rule_at
SELECT name, rule_json, running, parked, full_until, opens_at, rule_at FROM holdfast_limit WHERE name IN (SELECT value FROM json_each(:names));

-- name: write_limits
-- index: holdfast_limit (primary key)
UPDATE holdfast_limit AS l SET rule_json = r.rule_json, running = r.running, parked = r.parked,
    full_until = r.full_until, opens_at = r.opens_at, rule_at = r.rule_at
FROM {rows: name text, rule_json text, running integer, parked integer, full_until real,
    opens_at real, rule_at real}
WHERE l.name = r.name;

-- name: park_tasks
-- Parks tasks that this transaction inserted before it locked their limits.
-- index: holdfast_task (primary key)
UPDATE holdfast_task AS t SET gate = r.gate FROM {rows: id text, gate text} WHERE t.id = r.id;

-- name: open_limits
-- Limits at which parked tasks may be admitted again.
-- index: holdfast_limit_opens
-- returns: name
SELECT name FROM holdfast_limit WHERE opens_at IS NOT NULL AND opens_at <= :now ORDER BY opens_at LIMIT :limit;

-- name: next_open
-- index: holdfast_limit_opens
-- returns: opens_at
SELECT min(opens_at) AS opens_at FROM holdfast_limit WHERE opens_at IS NOT NULL;

-- name: parked_tasks
-- index: holdfast_task_gate
-- returns: task
SELECT {task} FROM holdfast_task WHERE status = 'queued' AND gate = :gate
ORDER BY priority, due_at LIMIT :limit;

-- name: reserved_tasks
-- Whether a task that is due waits at one of these gates.
-- index: holdfast_task_gate
-- returns: id
SELECT id FROM holdfast_task WHERE status = 'queued' AND gate IN (SELECT value FROM json_each(:gates))
  AND due_at <= :now LIMIT 1;

-- name: limit_holders
-- index: holdfast_task_lease
-- returns: id node started_at
SELECT id, node, started_at FROM holdfast_task
WHERE status IN ('running', 'stuck') AND instr(char(10) || limits || char(10), char(10) || :name || char(10)) > 0
ORDER BY started_at LIMIT :limit;

-- name: prune_limits
-- index: holdfast_limit (primary key)
-- returns: gone
DELETE FROM holdfast_limit WHERE name IN (
    SELECT name FROM holdfast_limit WHERE running = 0 AND parked = 0 AND full_until < :before
    LIMIT :limit)
RETURNING 1 AS gone;
