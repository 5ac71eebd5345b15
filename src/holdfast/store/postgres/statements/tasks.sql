-- Tasks: read under lock, write under version, insert.

-- name: get_tasks
-- index: holdfast_task_pkey
-- returns: task
SELECT {task} FROM holdfast_task WHERE id = ANY(:ids::text[]);

-- name: lock_tasks
-- Sorted, so that two transactions lock in the same order.
-- index: holdfast_task_pkey
-- returns: task
SELECT {task} FROM holdfast_task WHERE id = ANY(:ids::text[]) ORDER BY id FOR UPDATE;

-- name: lock_reporting
-- For what the runner itself says: not kept out by a step that its handler has ended in an open transaction.
-- index: holdfast_task_pkey
-- returns: task
SELECT {task} FROM holdfast_task WHERE id = ANY(:ids::text[]) ORDER BY id FOR NO KEY UPDATE;

-- name: lock_free_tasks
-- Those that no other transaction holds.
-- index: holdfast_task_pkey
-- returns: task
SELECT {task} FROM holdfast_task WHERE id = ANY(:ids::text[]) ORDER BY id FOR UPDATE SKIP LOCKED;

-- name: wait_briefly
-- For the rest of this transaction: how long locks that other transactions hold are waited for.
SELECT set_config('lock_timeout', :milliseconds::text, true);

-- name: insert_tasks
-- index: holdfast_task_pkey
INSERT INTO holdfast_task ({new}, nth, history)
SELECT {new:r}, r.nth, :record_id::text FROM {rows: @new, nth integer};

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

-- name: write_tasks
-- The version in the WHERE is the guard: nothing is written over a state that was not seen.
-- index: holdfast_task_pkey
-- returns: id
UPDATE holdfast_task t SET
    {changed=r},
    history = right(t.history || ',' || :record_id::text, 2000)
FROM {rows: id text, seen bigint, @changed}
WHERE t.id = r.id AND t.version = r.seen
RETURNING t.id;

-- name: note_tasks
-- A record that mentions tasks without changing them. Their versions stay: nothing that was seen is stale.
-- index: holdfast_task_pkey
UPDATE holdfast_task SET history = right(history || ',' || :record_id::text, 2000)
WHERE id = ANY(:ids::text[]);

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

-- name: extend_leases
-- A renewal changes no fact about the task, so it has no event; it is fenced like every runner's write.
-- A row that another transaction holds is left out: one task must not cost the others their leases.
-- index: holdfast_task_pkey
-- returns: id fence
WITH free AS MATERIALIZED (
    SELECT t.id FROM {rows: id text, fence bigint} JOIN holdfast_task t ON t.id = r.id
    WHERE t.fence = r.fence AND t.lease_until IS NOT NULL FOR NO KEY UPDATE OF t SKIP LOCKED
)
UPDATE holdfast_task t SET lease_until = :until::float8 FROM free WHERE t.id = free.id RETURNING t.id, t.fence;

-- name: owned_tasks
-- What the store believes that a node runs.
-- index: holdfast_task_lease
-- returns: id fence started_at
SELECT id, fence, started_at FROM holdfast_task
WHERE status = 'running' AND lease_until >= :floor::float8 AND node = :node::text;

-- name: ending_leases
-- Those that have ended, or else the one that ends first. Rows that another transaction holds are passed over, so
-- that any number of them hides no lease behind them; the very first is given in any case: nothing ends before it.
-- index: holdfast_task_lease
-- returns: id fence lease_until
WITH first AS MATERIALIZED (
    SELECT id, fence, lease_until FROM holdfast_task WHERE status = 'running' AND lease_until >= :floor::float8
    ORDER BY lease_until LIMIT 1
), free AS MATERIALIZED (
    SELECT id, fence, lease_until FROM holdfast_task
    WHERE status = 'running' AND lease_until >= (SELECT lease_until FROM first) AND lease_until <= :now::float8
    ORDER BY lease_until LIMIT :limit::int FOR UPDATE SKIP LOCKED
)
SELECT id, fence, lease_until FROM first UNION SELECT id, fence, lease_until FROM free ORDER BY lease_until;

-- name: find_tasks
-- index: holdfast_task_pkey, or the partial index of the status
-- returns: task
SELECT {task} FROM holdfast_task
WHERE (:status::text IS NULL OR status = :status::text) AND (:type::text IS NULL OR type = :type::text)
  AND (:queue::text IS NULL OR queue = :queue::text) AND (:after::text IS NULL OR id < :after::text)
  AND (:prefix::text IS NULL OR (id >= :prefix::text AND id < :prefix::text || '~'))
ORDER BY id DESC LIMIT :limit::int;

-- name: find_existing
-- index: holdfast_task_pkey, holdfast_task_key
-- returns: id type idempotency_key request_hash status
SELECT t.id, t.type, t.idempotency_key, t.request_hash, t.status FROM holdfast_task t
JOIN {rows: id text} ON t.id = r.id
UNION
SELECT t.id, t.type, t.idempotency_key, t.request_hash, t.status FROM holdfast_task t
JOIN unnest(:types::text[], :keys::text[]) k(type, key) ON t.type = k.type AND t.idempotency_key = k.key;

-- name: task_history
-- index: holdfast_task_pkey
-- returns: history
SELECT history FROM holdfast_task WHERE id = :id::text;

-- name: prune_tasks
-- The counters say what is in the store, so they follow at once; steps live as long as their task.
-- index: holdfast_task_finished, holdfast_cascade_pkey, holdfast_cascade_held_pkey, holdfast_counter_pkey, holdfast_ledger_pkey
-- returns: gone through
WITH gone AS (
    DELETE FROM holdfast_task WHERE id IN (
        SELECT id FROM holdfast_task
        WHERE finished_at IS NOT NULL AND finished_at >= :floor::float8 AND finished_at < :before::float8
          AND (status <> 'failed' OR finished_at < :dead_before::float8)
          AND NOT EXISTS (SELECT FROM holdfast_cascade c WHERE c.parent_id = holdfast_task.id)
          AND NOT EXISTS (SELECT FROM holdfast_cascade_held h WHERE h.parent_id = holdfast_task.id)
        ORDER BY finished_at LIMIT :limit::int FOR UPDATE SKIP LOCKED)
    RETURNING id, queue, type, priority, status, finished_at
), steps AS (
    DELETE FROM holdfast_ledger l USING gone g WHERE l.scope = 'holdfast.step' AND l.key = g.id
), counted AS (
    INSERT INTO holdfast_counter AS c (queue, type, priority, status, n)
    SELECT queue, type, priority, status, -count(*) FROM gone GROUP BY 1, 2, 3, 4
    ON CONFLICT (queue, type, priority, status) DO UPDATE SET n = c.n + excluded.n
)
SELECT count(*) AS gone, max(finished_at) AS through FROM gone;
