-- Limits: concurrency and rate, exact across processes because the row is locked while it is judged.

-- name: ensure_limits
-- index: holdfast_limit_pkey
INSERT INTO holdfast_limit (name, rule_json) SELECT name, rule_json FROM {rows: name text, rule_json text}
ON CONFLICT (name) DO UPDATE SET rule_json = excluded.rule_json
WHERE holdfast_limit.rule_json <> excluded.rule_json;

-- name: lock_limits
-- index: holdfast_limit_pkey
-- returns: name rule_json running parked full_until
SELECT name, rule_json, running, parked, full_until FROM holdfast_limit
WHERE name = ANY(:names::text[]) ORDER BY name FOR UPDATE;

-- name: get_limits
-- index: holdfast_limit_pkey
-- returns: name rule_json running parked full_until
SELECT name, rule_json, running, parked, full_until FROM holdfast_limit WHERE name = ANY(:names::text[]);

-- name: write_limits
-- index: holdfast_limit_pkey
UPDATE holdfast_limit l SET running = r.running, parked = r.parked, full_until = r.full_until,
    opens_at = r.opens_at
FROM {rows: name text, running integer, parked integer, full_until double precision,
    opens_at double precision}
WHERE l.name = r.name;

-- name: open_limits
-- Limits whose rate lets somebody start again.
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

-- name: limit_holders
-- index: holdfast_task_lease
-- returns: id node started_at
SELECT id, node, started_at FROM holdfast_task
WHERE status = 'running' AND strpos(chr(10) || limits || chr(10), chr(10) || :name::text || chr(10)) > 0
ORDER BY started_at LIMIT :limit::int;

-- name: prune_limits
-- index: holdfast_limit_pkey
DELETE FROM holdfast_limit WHERE name IN (
    SELECT name FROM holdfast_limit WHERE running = 0 AND parked = 0 AND full_until < :before::float8
    LIMIT :limit::int FOR UPDATE SKIP LOCKED);
