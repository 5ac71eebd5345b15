-- Limits on concurrency and rate. They are exact across processes, because the row is locked while it is checked.

-- name: ensure_limits
-- An existing row is not changed, and its lock is not waited for.
-- index: holdfast_limit_pkey
INSERT INTO holdfast_limit (name, rule_json, rule_at)
SELECT name, rule_json, rule_at FROM {rows: name text, rule_json text, rule_at double precision}
ON CONFLICT (name) DO NOTHING;

-- name: lock_limits
-- Includes priority and due time of the first parked task.
-- index: holdfast_limit_pkey, holdfast_task_gate
-- returns: name rule_json running parked full_until opens_at rule_at head_priority head_due_at
SELECT l.name, l.rule_json, l.running, l.parked, l.full_until, l.opens_at, l.rule_at,
    h.priority AS head_priority, h.due_at AS head_due_at
FROM holdfast_limit l LEFT JOIN LATERAL (
    SELECT t.priority, t.due_at FROM holdfast_task t
    WHERE l.parked > 0 AND t.status = 'queued' AND t.gate = l.name
    ORDER BY t.priority, t.due_at, t.nth LIMIT 1) h ON true
WHERE l.name = ANY(:names::text[]) ORDER BY l.name FOR UPDATE OF l;

-- name: lock_free_limits
-- As `lock_limits`, but skips limits that another transaction holds.
-- index: holdfast_limit_pkey, holdfast_task_gate
-- returns: name rule_json running parked full_until opens_at rule_at head_priority head_due_at
SELECT l.name, l.rule_json, l.running, l.parked, l.full_until, l.opens_at, l.rule_at,
    h.priority AS head_priority, h.due_at AS head_due_at
FROM holdfast_limit l LEFT JOIN LATERAL (
    SELECT t.priority, t.due_at FROM holdfast_task t
    WHERE l.parked > 0 AND t.status = 'queued' AND t.gate = l.name
    ORDER BY t.priority, t.due_at, t.nth LIMIT 1) h ON true
WHERE l.name = ANY(:names::text[]) ORDER BY l.name FOR UPDATE OF l SKIP LOCKED;

-- name: get_limits
-- index: holdfast_limit_pkey
-- returns: name rule_json running parked full_until opens_at rule_at
SELECT name, rule_json, running, parked, full_until, opens_at, rule_at FROM holdfast_limit WHERE name = ANY(:names::text[]);

-- name: write_limits
-- index: holdfast_limit_pkey
UPDATE holdfast_limit l SET rule_json = r.rule_json, running = r.running, parked = r.parked,
    full_until = r.full_until, opens_at = r.opens_at, rule_at = r.rule_at
FROM {rows: name text, rule_json text, running integer, parked integer, full_until double precision,
    opens_at double precision, rule_at double precision}
WHERE l.name = r.name;

-- name: park_tasks
-- Parks tasks that this transaction inserted before it locked their limits.
-- index: holdfast_task_pkey
UPDATE holdfast_task t SET gate = r.gate FROM {rows: id text, gate text} WHERE t.id = r.id;

-- name: open_limits
-- Limits at which parked tasks may be admitted again.
-- index: holdfast_limit_opens
-- returns: name
SELECT name FROM holdfast_limit WHERE opens_at IS NOT NULL AND opens_at <= :now::float8 ORDER BY opens_at LIMIT :limit::int;

-- name: next_open
-- index: holdfast_limit_opens
-- returns: opens_at
SELECT min(opens_at) AS opens_at FROM holdfast_limit WHERE opens_at IS NOT NULL;

-- name: parked_tasks
-- index: holdfast_task_gate
-- returns: task
SELECT {task} FROM holdfast_task WHERE status = 'queued' AND gate = :gate::text
ORDER BY priority, due_at, nth LIMIT :limit::int FOR UPDATE SKIP LOCKED;

-- name: reserved_tasks
-- Whether a task that is due waits at one of these gates.
-- index: holdfast_task_gate
-- returns: id
SELECT id FROM holdfast_task WHERE status = 'queued' AND gate = ANY(:gates::text[])
  AND due_at <= :now::float8 LIMIT 1;

-- name: limit_holders
-- index: holdfast_task_lease
-- returns: id node started_at
SELECT id, node, started_at FROM holdfast_task
WHERE status IN ('running', 'stuck') AND strpos(chr(10) || limits || chr(10), chr(10) || :name::text || chr(10)) > 0
ORDER BY started_at LIMIT :limit::int;

-- name: prune_limits
-- index: holdfast_limit_pkey
-- returns: gone
DELETE FROM holdfast_limit WHERE name IN (
    SELECT name FROM holdfast_limit WHERE running = 0 AND parked = 0 AND full_until < :before::float8
    LIMIT :limit::int FOR UPDATE SKIP LOCKED)
RETURNING 1 AS gone;
