-- Turns between the keys of fair types (core/turns.py). A lane is a type, a gate ('' for ready tasks), a queue, a project and
-- a priority.

-- name: fair_slots
-- The lanes of candidates of a claim: other tasks of the lane may start in their place.
-- index: holdfast_task (primary key)
-- returns: type queue project priority slots
SELECT type, queue, project, priority, count(*) AS slots FROM holdfast_task WHERE id IN (SELECT value FROM json_each(:ids))
GROUP BY type, queue, project, priority;

-- name: ensure_turns
-- index: holdfast_turn (primary key)
INSERT INTO holdfast_turn (type, gate, queue, project, priority, used_at)
SELECT r.type, r.gate, r.queue, r.project, r.priority, :now
FROM {rows: type text, gate text, queue text, project text, priority integer} WHERE true
ON CONFLICT (type, gate, queue, project, priority) DO NOTHING;

-- name: lock_turns
-- index: holdfast_turn (primary key)
-- returns: type gate queue project priority key taken
SELECT t.type, t.gate, t.queue, t.project, t.priority, t.key, t.taken
FROM {rows: type text, gate text, queue text, project text, priority integer} CROSS JOIN holdfast_turn t
    ON t.type = r.type AND t.gate = r.gate AND t.queue = r.queue AND t.project = r.project AND t.priority = r.priority
ORDER BY 1, 2, 3, 4, 5;

-- name: lock_free_turns
-- As `lock_turns`. With one writer no row is locked by another transaction.
-- index: holdfast_turn (primary key)
-- returns: type gate queue project priority key taken
SELECT t.type, t.gate, t.queue, t.project, t.priority, t.key, t.taken
FROM {rows: type text, gate text, queue text, project text, priority integer} CROSS JOIN holdfast_turn t
    ON t.type = r.type AND t.gate = r.gate AND t.queue = r.queue AND t.project = r.project AND t.priority = r.priority
ORDER BY 1, 2, 3, 4, 5;

-- name: write_turns
-- index: holdfast_turn (primary key)
UPDATE holdfast_turn AS t SET key = r.key, taken = r.taken, used_at = :now
FROM {rows: type text, gate text, queue text, project text, priority integer, key text, taken integer}
WHERE t.type = r.type AND t.gate = r.gate AND t.queue = r.queue AND t.project = r.project AND t.priority = r.priority;

-- name: fair_keys
-- Steps from key to key of a lane: one probe of the index for each, whatever the number of tasks.
-- index: holdfast_task_fair, holdfast_weight (primary key)
-- returns: key weight is_ready
WITH RECURSIVE walk(key, nth) AS (
    SELECT (SELECT t.fair_key FROM holdfast_task t
            WHERE t.type = :type AND coalesce(t.gate, '') = :gate AND t.queue = :queue AND t.project = :project
              AND t.priority = :priority AND t.status = 'queued' AND t.fair_key >= :first
            ORDER BY t.fair_key LIMIT 1), 1
    UNION ALL
    SELECT (SELECT t.fair_key FROM holdfast_task t
            WHERE t.type = :type AND coalesce(t.gate, '') = :gate AND t.queue = :queue AND t.project = :project
              AND t.priority = :priority AND t.status = 'queued' AND t.fair_key > walk.key
            ORDER BY t.fair_key LIMIT 1), walk.nth + 1
    FROM walk WHERE walk.key IS NOT NULL AND walk.nth < :most
)
SELECT walk.key, coalesce((SELECT w.weight FROM holdfast_weight w WHERE w.type = :type AND w.key = walk.key), 1) AS weight,
    (SELECT 1 FROM holdfast_task t
            WHERE t.type = :type AND coalesce(t.gate, '') = :gate AND t.queue = :queue AND t.project = :project
              AND t.priority = :priority AND t.status = 'queued' AND t.fair_key = walk.key AND t.due_at <= :due LIMIT 1) IS NOT NULL AS is_ready
FROM walk WHERE walk.key IS NOT NULL ORDER BY walk.nth;

-- name: fair_heads
-- The first tasks of each of these keys, by steps through the index: SQLite has no LATERAL.
-- index: holdfast_task_fair, holdfast_task (rowid)
-- returns: key id
WITH RECURSIVE head(key, most, row_id, nth) AS (
    SELECT r.key, r.most, (SELECT t.rowid FROM holdfast_task t
            WHERE t.type = :type AND coalesce(t.gate, '') = :gate AND t.queue = :queue AND t.project = :project
              AND t.priority = :priority AND t.status = 'queued' AND t.fair_key = r.key AND t.due_at <= :due
            ORDER BY t.due_at, t.rowid LIMIT 1), 1
    FROM {rows: key text, most integer}
    UNION ALL
    SELECT head.key, head.most, (SELECT t.rowid FROM holdfast_task t
            WHERE t.type = :type AND coalesce(t.gate, '') = :gate AND t.queue = :queue AND t.project = :project
              AND t.priority = :priority AND t.status = 'queued' AND t.fair_key = head.key AND t.due_at <= :due
              AND (t.due_at, t.rowid) > ((SELECT s.due_at FROM holdfast_task s WHERE s.rowid = head.row_id), head.row_id)
            ORDER BY t.due_at, t.rowid LIMIT 1), head.nth + 1
    FROM head WHERE head.row_id IS NOT NULL AND head.nth < head.most
)
SELECT head.key, (SELECT t.id FROM holdfast_task t WHERE t.rowid = head.row_id) AS id
FROM head WHERE head.row_id IS NOT NULL ORDER BY head.nth;

-- name: fair_ahead
-- Tasks of a key that start before one of this due time.
-- index: holdfast_task_fair
-- returns: n
SELECT count(*) AS n FROM (SELECT 1 FROM holdfast_task t
    WHERE t.type = :type AND coalesce(t.gate, '') = :gate AND t.queue = :queue AND t.project = :project
      AND t.priority = :priority AND t.status = 'queued' AND t.fair_key = :key AND t.due_at < :due LIMIT :limit);

-- name: lock_parked
-- index: holdfast_task (primary key)
-- returns: task
SELECT {task} FROM holdfast_task WHERE id IN (SELECT value FROM json_each(:ids)) AND status = 'queued' AND +gate = :gate
ORDER BY priority, due_at, rowid;

-- name: prune_turns
-- index: holdfast_turn_used
-- returns: gone
DELETE FROM holdfast_turn WHERE (type, gate, queue, project, priority) IN (
    SELECT type, gate, queue, project, priority FROM holdfast_turn WHERE used_at < :before LIMIT :limit)
RETURNING 1 AS gone;

-- name: set_weight
-- index: holdfast_weight (primary key)
INSERT INTO holdfast_weight (type, key, weight, set_by, set_at) VALUES (:type, :key, :weight, :by, :now)
ON CONFLICT (type, key) DO UPDATE SET weight = excluded.weight, set_by = excluded.set_by, set_at = excluded.set_at;

-- name: drop_weight
-- index: holdfast_weight (primary key)
-- returns: gone
DELETE FROM holdfast_weight WHERE type = :type AND key = :key RETURNING 1 AS gone;

-- name: weights
-- index: holdfast_weight (primary key)
-- returns: key weight set_by set_at
SELECT key, weight, set_by, set_at FROM holdfast_weight WHERE type = :type AND key > :after ORDER BY key LIMIT :limit;
