-- Turns between the keys of fair types (core/turns.py). A lane is a type, a gate ('' for ready tasks), a queue, a project and
-- a priority.

-- name: fair_slots
-- The lanes of candidates of a claim. They are not locked: other tasks of the lane may start in their place.
-- index: holdfast_task_pkey
-- returns: type queue project priority slots
SELECT type, queue, project, priority, count(*) AS slots FROM holdfast_task WHERE id = ANY(:ids::text[])
GROUP BY type, queue, project, priority;

-- name: ensure_turns
-- index: holdfast_turn_pkey
INSERT INTO holdfast_turn (type, gate, queue, project, priority, used_at)
SELECT r.type, r.gate, r.queue, r.project, r.priority, :now::float8
FROM {rows: type text, gate text, queue text, project text, priority smallint} ORDER BY 1, 2, 3, 4, 5
ON CONFLICT (type, gate, queue, project, priority) DO NOTHING;

-- name: lock_turns
-- index: holdfast_turn_pkey
-- returns: type gate queue project priority key taken
SELECT t.type, t.gate, t.queue, t.project, t.priority, t.key, t.taken FROM holdfast_turn t
JOIN {rows: type text, gate text, queue text, project text, priority smallint}
    ON t.type = r.type AND t.gate = r.gate AND t.queue = r.queue AND t.project = r.project AND t.priority = r.priority
ORDER BY 1, 2, 3, 4, 5 FOR NO KEY UPDATE OF t;

-- name: lock_free_turns
-- As `lock_turns`, but skips lanes that another claim holds.
-- index: holdfast_turn_pkey
-- returns: type gate queue project priority key taken
SELECT t.type, t.gate, t.queue, t.project, t.priority, t.key, t.taken FROM holdfast_turn t
JOIN {rows: type text, gate text, queue text, project text, priority smallint}
    ON t.type = r.type AND t.gate = r.gate AND t.queue = r.queue AND t.project = r.project AND t.priority = r.priority
ORDER BY 1, 2, 3, 4, 5 FOR NO KEY UPDATE OF t SKIP LOCKED;

-- name: write_turns
-- index: holdfast_turn_pkey
UPDATE holdfast_turn t SET key = r.key, taken = r.taken, used_at = :now::float8
FROM {rows: type text, gate text, queue text, project text, priority smallint, key text, taken integer}
WHERE t.type = r.type AND t.gate = r.gate AND t.queue = r.queue AND t.project = r.project AND t.priority = r.priority;

-- name: fair_keys
-- Steps from key to key of a lane: one probe of the index for each, whatever the number of tasks.
-- index: holdfast_task_fair, holdfast_weight_pkey
-- returns: key weight is_ready
WITH RECURSIVE walk(key, nth) AS (
    (SELECT fair_key, 1 FROM holdfast_task
     WHERE type = :type::text AND coalesce(gate, '') = :gate::text AND queue = :queue::text AND project = :project::text
       AND priority = :priority::smallint AND status = 'queued' AND fair_key >= :first::text
     ORDER BY fair_key LIMIT 1)
    UNION ALL
    SELECT (SELECT t.fair_key FROM holdfast_task t
            WHERE t.type = :type::text AND coalesce(t.gate, '') = :gate::text AND t.queue = :queue::text
              AND t.project = :project::text AND t.priority = :priority::smallint AND t.status = 'queued'
              AND t.fair_key > walk.key
            ORDER BY t.fair_key LIMIT 1), walk.nth + 1
    FROM walk WHERE walk.key IS NOT NULL AND walk.nth < :most::int
)
SELECT walk.key, coalesce((SELECT w.weight FROM holdfast_weight w WHERE w.type = :type::text AND w.key = walk.key), 1) AS weight,
    (SELECT 1 FROM holdfast_task t
            WHERE t.type = :type::text AND coalesce(t.gate, '') = :gate::text AND t.queue = :queue::text
              AND t.project = :project::text AND t.priority = :priority::smallint AND t.status = 'queued'
              AND t.fair_key = walk.key AND t.due_at <= :due::float8 LIMIT 1) IS NOT NULL AS is_ready
FROM walk WHERE walk.key IS NOT NULL ORDER BY walk.nth;

-- name: fair_heads
-- The first tasks of each of these keys.
-- index: holdfast_task_fair
-- returns: key id
SELECT r.key, h.id FROM {rows: key text, most integer} CROSS JOIN LATERAL (
    SELECT t.id FROM holdfast_task t
    WHERE t.type = :type::text AND coalesce(t.gate, '') = :gate::text AND t.queue = :queue::text
      AND t.project = :project::text AND t.priority = :priority::smallint AND t.status = 'queued'
      AND t.fair_key = r.key AND t.due_at <= :due::float8
    ORDER BY t.due_at, t.nth LIMIT r.most) h;

-- name: fair_ahead
-- Tasks of a key that start before one of this due time.
-- index: holdfast_task_fair
-- returns: n
SELECT count(*) AS n FROM (SELECT 1 FROM holdfast_task t
    WHERE t.type = :type::text AND coalesce(t.gate, '') = :gate::text AND t.queue = :queue::text
      AND t.project = :project::text AND t.priority = :priority::smallint AND t.status = 'queued'
      AND t.fair_key = :key::text AND t.due_at < :due::float8 LIMIT :limit::int) a;

-- name: lock_parked
-- Locks parked tasks by id, except those that another transaction has locked or unparked. The test of the gate keeps
-- the planner from the index of all parked tasks.
-- index: holdfast_task_pkey
-- returns: task
SELECT {task} FROM holdfast_task WHERE id = ANY(:ids::text[]) AND status = 'queued' AND coalesce(gate, '') = :gate::text
ORDER BY priority, due_at, nth FOR UPDATE SKIP LOCKED;

-- name: prune_turns
-- index: holdfast_turn_used
-- returns: gone
DELETE FROM holdfast_turn WHERE (type, gate, queue, project, priority) IN (
    SELECT type, gate, queue, project, priority FROM holdfast_turn WHERE used_at < :before::float8
    LIMIT :limit::int FOR UPDATE SKIP LOCKED)
RETURNING 1 AS gone;

-- name: set_weight
-- index: holdfast_weight_pkey
INSERT INTO holdfast_weight (type, key, weight, set_by, set_at)
VALUES (:type::text, :key::text, :weight::int, :by::text, :now::float8)
ON CONFLICT (type, key) DO UPDATE SET weight = excluded.weight, set_by = excluded.set_by, set_at = excluded.set_at;

-- name: drop_weight
-- index: holdfast_weight_pkey
-- returns: gone
DELETE FROM holdfast_weight WHERE type = :type::text AND key = :key::text RETURNING 1 AS gone;

-- name: weights
-- index: holdfast_weight_pkey
-- returns: key weight set_by set_at
SELECT key, weight, set_by, set_at FROM holdfast_weight WHERE type = :type::text AND key > :after::text
ORDER BY key LIMIT :limit::int;
