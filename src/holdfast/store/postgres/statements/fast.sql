-- Shortcuts (store/fast): what the core would decide for plain tasks, in single statements.

-- name: insert_plain
-- Rows, their facts and the counters in one statement: one round trip, one commit. What the rows have in
-- common comes once, as shapes; the rest as three texts, which costs far less than arrays. The ids are
-- ours and new; one that exists after all (a repeated request) refuses the whole, and the caller looks.
-- The record is written last: an unread WITH runs after the main statement.
-- index: holdfast_task_pkey
WITH recorded AS (
    INSERT INTO holdfast_feed (id, events_count, at, events_json, deltas_json)
    VALUES (:record_id::text::bigint, :events_count::int, :now::float8, :events_json::text, :deltas_json::text)
    RETURNING CASE WHEN :hint::text <> '' THEN pg_notify('holdfast_work', :hint::text) END
)
INSERT INTO holdfast_task (id, payload_json, {shape}, status, created_at, updated_at, due_at, nth, history)
SELECT i.id, i.payload::text, {shape:s}, 'queued', :now::float8, :now::float8, :now::float8 + s.delay, i.nth,
    :record_id::text
FROM ROWS FROM (unnest(string_to_array(:ids::text, E'\n')), json_array_elements(:payloads::json),
                unnest(string_to_array(:places::text, ','))) WITH ORDINALITY AS i(id, payload, place, nth)
JOIN unnest({shape[]}, :delay::float8[]) WITH ORDINALITY AS s({shape}, delay, place)
    ON s.place = i.place::int;

-- name: insert_one
-- One task and its fact with plain values: what a single caller waits for.
-- index: holdfast_task_pkey
WITH recorded AS (
    INSERT INTO holdfast_feed (id, events_count, at, events_json, deltas_json)
    VALUES (:record_id::text::bigint, 1, :now::float8, :events_json::text, :deltas_json::text)
    RETURNING CASE WHEN :hint::text <> '' THEN pg_notify('holdfast_work', :hint::text) END
)
INSERT INTO holdfast_task ({plain}, status, created_at, updated_at, due_at, history)
VALUES ({plain?}, 'queued', :now::float8, :now::float8, :due_at::float8, :record_id::text);

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
        '[' || string_agg(:event_head::text || to_json(id)::text || ',' || to_json(type)::text
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
        '[' || :event_head::text || to_json(id)::text || ',' || to_json(type)::text || :event_node::text || attempts
            || '}]]',
        json_build_array(json_build_array(queue, type, priority, 'queued', -1),
                         json_build_array(queue, type, priority, 'running', 1))::text
    FROM taken
)
SELECT {task} FROM taken;

-- name: complete_plain
-- The common end of a task that nobody waits for and no limit counts: fenced, with its fact, in one
-- statement. Rows that do not match are left to the general path, which says why; only then are the facts
-- and the counters picked apart here.
-- index: holdfast_task_pkey
-- returns: id
WITH done AS (
    UPDATE holdfast_task t SET status = 'completed', version = t.version + 1, updated_at = :now::float8,
        finished_at = :now::float8, node = NULL, lease_until = NULL, result_json = r.result::text,
        history = right(t.history || ',' || :record_id::text, 2000)
    FROM (SELECT * FROM ROWS FROM (
              unnest(string_to_array(:ids::text, E'\n')), unnest(string_to_array(:fences::text, ',')),
              unnest(string_to_array(:versions::text, ',')), json_array_elements(:results::json))
              WITH ORDINALITY AS u(id, fence, version, result, nth)
          LIMIT :count::int) r
    -- "Is running" is said by the lease, so that the planner is not led to the index of all that runs.
    WHERE t.id = r.id AND t.fence = r.fence::bigint AND t.version = r.version::bigint
      AND t.lease_until IS NOT NULL AND t.has_dependents = 0 AND t.limits IS NULL
    RETURNING t.id, t.queue, t.type, t.priority, r.nth
), recorded AS (
    INSERT INTO holdfast_feed (id, events_count, at, events_json, deltas_json)
    SELECT :record_id::text::bigint, n, :now::float8,
        CASE WHEN n = :count::int THEN :events_json::text
             ELSE (SELECT '[' || string_agg(f.fact::text, ',' ORDER BY f.nth) || ']'
                   FROM json_array_elements(:events_json::json) WITH ORDINALITY f(fact, nth)
                   WHERE f.nth IN (SELECT nth FROM done)) END,
        CASE WHEN n = :count::int THEN :deltas_json::text
             ELSE (SELECT json_agg(d)::text FROM (
                       SELECT json_build_array(queue, type, priority, s.status, s.sign * count(*)) AS d
                       FROM done, (VALUES ('running', -1), ('completed', 1)) s(status, sign)
                       GROUP BY queue, type, priority, s.status, s.sign) x) END
    FROM (SELECT count(*) AS n FROM done) c WHERE n > 0
)
SELECT id FROM done;
