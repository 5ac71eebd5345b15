-- Claims: which task is next, and taking it.

-- name: claim_plain
-- FOR NO KEY UPDATE, here and below: a foreign key of a caller's open transaction keeps no task from being claimed.
-- Picks in order of priority and due time, takes what no limit counts, records it: one statement.
-- Lanes are read lazily: the outer LIMIT stops the scan, so only what is taken gets locked. A locked row
-- stays where it is, so the update finds it by its place. Each lane is read from its floor on (floors.py).
-- Of tasks under limits only the ids are told, untaken, for the general path; so one row comes at least.
-- index: holdfast_task_ready
-- returns: limited limited_due_at nth task
WITH lane AS MATERIALIZED (
    SELECT q.name, p.priority, (:floors::float8[])[(q.n - 1) * 4 + p.priority + 1] AS floor,
        (:floor_nths::int[])[(q.n - 1) * 4 + p.priority + 1] AS floor_nth
    FROM unnest(:queues::text[]) WITH ORDINALITY q(name, n), generate_series(0, 3) p(priority)
    WHERE NOT EXISTS (SELECT FROM holdfast_queue h WHERE h.name = q.name AND h.paused_at IS NOT NULL)
    ORDER BY p.priority, q.n
), picked AS MATERIALIZED (
    SELECT t.id, t.limits, t.due_at, t.tid FROM lane CROSS JOIN LATERAL (
        SELECT id, limits, due_at, ctid AS tid FROM holdfast_task
        WHERE queue = lane.name AND priority = lane.priority AND status = 'queued' AND gate IS NULL
          AND (due_at, nth) >= (lane.floor, lane.floor_nth) AND due_at <= :now::float8 AND type = ANY(:types::text[])
        ORDER BY due_at, nth LIMIT :limit::int FOR NO KEY UPDATE SKIP LOCKED) t
    LIMIT :limit::int
), taken AS (
    UPDATE holdfast_task t SET status = 'running', version = t.version + 1, fence = t.fence + 1,
        attempts = t.attempts + 1, updated_at = :now::float8, started_at = :now::float8, node = :node::text,
        lease_until = :now::float8 + :lease_seconds::float8, history = right(t.history || ',' || :record_id::text, 2000)
    FROM picked p WHERE t.ctid = p.tid AND p.limits IS NULL
    RETURNING {task:t}, t.nth
), recorded AS (
    INSERT INTO holdfast_feed (id, events_count, at, events_json, deltas_json)
    SELECT :record_id::text::bigint, count(*), :now::float8,
        '[' || string_agg(:fact_head::text || to_json(id)::text || ',' || to_json(type)::text
                          || :event_node::text || attempts || '}]', ',' ORDER BY priority, due_at, nth) || ']',
        (SELECT json_agg(d)::text FROM (
            SELECT json_build_array(queue, type, priority, s.status, s.sign * count(*)) AS d
            FROM taken, (VALUES ('queued', -1), ('running', 1)) s(status, sign)
            GROUP BY queue, type, priority, s.status, s.sign) x)
    FROM taken HAVING count(*) > 0
)
SELECT l.limited, l.limited_due_at, nth, {task}
FROM (SELECT array_agg(id) AS limited, min(due_at) AS limited_due_at FROM picked WHERE limits IS NOT NULL) l
LEFT JOIN taken ON true;

-- name: claim_next
-- The first in line alone, for a worker that idles: a plan that starts much quicker than the one above. One
-- that a limit counts is left to that. Lists come joined, because a client makes a text quicker than an array.
-- index: holdfast_task_ready
-- returns: task
WITH taken AS (
    UPDATE holdfast_task t SET status = 'running', version = t.version + 1, fence = t.fence + 1,
        attempts = t.attempts + 1, updated_at = :now::float8, started_at = :now::float8, node = :node::text,
        lease_until = :now::float8 + :lease_seconds::float8, history = right(t.history || ',' || :record_id::text, 2000)
    WHERE t.limits IS NULL AND t.ctid = (
        SELECT first.tid FROM (
            SELECT q.name, p.priority, (string_to_array(:floors::text, ' ')::float8[])[(q.n - 1) * 4 + p.priority + 1] AS floor,
                (string_to_array(:floor_nths::text, ' ')::int[])[(q.n - 1) * 4 + p.priority + 1] AS floor_nth
            FROM unnest(string_to_array(:queues::text, E'\n')) WITH ORDINALITY q(name, n), generate_series(0, 3) p(priority)
            WHERE NOT EXISTS (SELECT FROM holdfast_queue h WHERE h.name = q.name AND h.paused_at IS NOT NULL)
            ORDER BY p.priority, q.n
        ) lane CROSS JOIN LATERAL (
            SELECT ctid AS tid FROM holdfast_task
            WHERE queue = lane.name AND priority = lane.priority AND status = 'queued' AND gate IS NULL
              AND (due_at, nth) >= (lane.floor, lane.floor_nth) AND due_at <= :now::float8
              AND type = ANY(string_to_array(:types::text, E'\n'))
            ORDER BY due_at, nth LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED) first
        LIMIT 1)
    RETURNING {task:t}
), recorded AS (
    INSERT INTO holdfast_feed (id, events_count, at, events_json, deltas_json)
    SELECT :record_id::text::bigint, 1, :now::float8,
        '[' || :fact_head::text || to_json(id)::text || ',' || to_json(type)::text || :event_node::text || attempts
            || '}]]',
        json_build_array(json_build_array(queue, type, priority, 'queued', -1),
                         json_build_array(queue, type, priority, 'running', 1))::text
    FROM taken
)
SELECT {task} FROM taken;

-- name: lock_queued
-- Candidates by id, unless somebody else took them meanwhile.
-- index: holdfast_task_pkey
-- returns: task
SELECT {task} FROM holdfast_task
WHERE id = ANY(:ids::text[]) AND status = 'queued' AND gate IS NULL
ORDER BY priority, due_at, nth FOR NO KEY UPDATE SKIP LOCKED;

-- name: pick_aged
-- The longest-waiting tasks of all priorities: the share that keeps low from starving.
-- index: holdfast_task_ready
-- returns: task
WITH lane AS MATERIALIZED (
    SELECT q.name, p.priority, (:floors::float8[])[(q.n - 1) * 4 + p.priority + 1] AS floor,
        (:floor_nths::int[])[(q.n - 1) * 4 + p.priority + 1] AS floor_nth
    FROM unnest(:queues::text[]) WITH ORDINALITY q(name, n), generate_series(:below::int + 1, 3) p(priority)
    WHERE NOT EXISTS (SELECT FROM holdfast_queue h WHERE h.name = q.name AND h.paused_at IS NOT NULL)
)
SELECT {task:t} FROM lane CROSS JOIN LATERAL (
    SELECT * FROM holdfast_task
    WHERE queue = lane.name AND priority = lane.priority AND status = 'queued' AND gate IS NULL
      AND (due_at, nth) >= (lane.floor, lane.floor_nth) AND due_at <= :now::float8 - :ageing_seconds::float8 AND type = ANY(:types::text[])
    ORDER BY due_at, nth LIMIT :limit::int FOR NO KEY UPDATE SKIP LOCKED) t
ORDER BY t.due_at, t.nth LIMIT :limit::int;

-- name: next_due
-- When the next task that waits for its time is due, and when the next limit lets tasks in.
-- index: holdfast_task_ready, holdfast_limit_opens
-- returns: due_at opens_at
SELECT min(t.due_at) AS due_at,
    (SELECT opens_at FROM holdfast_limit WHERE opens_at IS NOT NULL ORDER BY opens_at LIMIT 1) AS opens_at
FROM unnest(:queues::text[]) q(name) CROSS JOIN generate_series(0, 3) p(priority)
CROSS JOIN LATERAL (
    SELECT due_at FROM holdfast_task
    WHERE queue = q.name AND priority = p.priority AND status = 'queued' AND gate IS NULL AND due_at > :now::float8
    ORDER BY due_at LIMIT 1) t;

-- name: first_due
-- Since when, or from when on, the first task in line has been due; and when the next limit lets tasks in.
-- index: holdfast_task_ready, holdfast_limit_opens
-- returns: due_at opens_at
SELECT min(t.due_at) AS due_at,
    (SELECT opens_at FROM holdfast_limit WHERE opens_at IS NOT NULL ORDER BY opens_at LIMIT 1) AS opens_at
FROM unnest(:queues::text[]) q(name) CROSS JOIN generate_series(0, 3) p(priority)
CROSS JOIN LATERAL (
    SELECT due_at FROM holdfast_task
    WHERE queue = q.name AND priority = p.priority AND status = 'queued' AND gate IS NULL
    ORDER BY due_at LIMIT 1) t;
