-- Fast paths (store/fast): the decisions of the core for plain tasks, as single statements.

-- name: insert_plain
-- Inserts tasks with their events and counter deltas in one statement: one round trip, one commit. Values that rows
-- share are passed once, as shapes. The other values are passed as three texts, which is much cheaper than arrays.
-- The ids are generated. If one exists after all (a repeated request), the statement fails and the caller takes the
-- general path. The record is written last, because an unreferenced WITH runs after the main statement.
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

-- name: insert_alike
-- The same for tasks that differ only in id and payload. `events_count` is that of the record, which may be about more
-- tasks: those of parts before this one (`insert_part`).
-- index: holdfast_task_pkey
WITH recorded AS (
    INSERT INTO holdfast_feed (id, events_count, at, events_json, deltas_json)
    VALUES (:record_id::text::bigint, :events_count::int, :now::float8, :events_json::text, :deltas_json::text)
    RETURNING CASE WHEN :hint::text <> '' THEN pg_notify('holdfast_work', :hint::text) END
)
INSERT INTO holdfast_task (id, payload_json, {shape}, status, created_at, updated_at, due_at, nth, history)
SELECT i.id, i.payload::text, {shape?::}, 'queued', :now::float8, :now::float8, :due_at::float8, :before::int + i.nth,
    :record_id::text
FROM ROWS FROM (unnest(string_to_array(:ids::text, E'\n')), json_array_elements(:payloads::json))
    WITH ORDINALITY AS i(id, payload, nth);

-- name: insert_part
-- The first tasks of a large group, whose other parts follow in the same transaction. The last one has the record.
-- index: holdfast_task_pkey
INSERT INTO holdfast_task (id, payload_json, {shape}, status, created_at, updated_at, due_at, nth, history)
SELECT i.id, i.payload::text, {shape?::}, 'queued', :now::float8, :now::float8, :due_at::float8, :before::int + i.nth,
    :record_id::text
FROM ROWS FROM (unnest(string_to_array(:ids::text, E'\n')), json_array_elements(:payloads::json))
    WITH ORDINALITY AS i(id, payload, nth);

-- name: insert_one
-- Inserts one task and its event with plain values, because a caller waits for it.
-- index: holdfast_task_pkey
WITH recorded AS (
    INSERT INTO holdfast_feed (id, events_count, at, events_json, deltas_json)
    VALUES (:record_id::text::bigint, 1, :now::float8, :events_json::text, :deltas_json::text)
    RETURNING CASE WHEN :hint::text <> '' THEN pg_notify('holdfast_work', :hint::text) END
)
INSERT INTO holdfast_task ({plain}, status, created_at, updated_at, due_at, history)
VALUES ({plain?}, 'queued', :now::float8, :now::float8, :due_at::float8, :record_id::text);

-- name: claim_plain
-- Selects tasks by priority and due time, claims those without limits and records the events, in one statement.
-- Lanes are read lazily: the outer LIMIT stops the scan, so only selected rows are locked. A locked row does not
-- move, so the update finds it by its ctid: one scan of all ctids, because a join would ask the file for its size for
-- each. The scan of each lane starts at its floor (floors.py).
-- Of tasks with limits, and of fair types, only the ids are returned, for the general path; so there is always at least
-- one row.
-- Of most tasks only the values are returned that the claiming process does not know. `whole` is all the columns of the
-- others: fewer columns are faster to make, to send and to read.
-- FOR NO KEY UPDATE, here and below, does not conflict with a foreign key check in a caller's open transaction.
-- index: holdfast_task_ready
-- returns: limited fair aside_due_at nth {claimed} whole
WITH lane AS MATERIALIZED (
    SELECT q.name, p.priority, (:floors::float8[])[(q.n - 1) * 4 + p.priority + 1] AS floor,
        (:floor_nths::int[])[(q.n - 1) * 4 + p.priority + 1] AS floor_nth
    FROM unnest(:queues::text[]) WITH ORDINALITY q(name, n), generate_series(0, 3) p(priority)
    WHERE NOT EXISTS (SELECT FROM holdfast_queue h WHERE h.name = q.name AND h.paused_at IS NOT NULL)
    ORDER BY p.priority, q.n
), picked AS MATERIALIZED (
    SELECT t.id, t.limits, t.fair_key, t.due_at, t.tid FROM lane CROSS JOIN LATERAL (
        SELECT id, limits, fair_key, due_at, ctid AS tid FROM holdfast_task
        WHERE queue = lane.name AND priority = lane.priority AND status = 'queued' AND gate IS NULL
          AND (due_at, nth) >= (lane.floor, lane.floor_nth) AND due_at <= :now::float8 AND type = ANY(:types::text[])
          AND (:projects::text[] IS NULL OR project = ANY(:projects::text[]))
        ORDER BY due_at, nth LIMIT :limit::int FOR NO KEY UPDATE SKIP LOCKED) t
    LIMIT :limit::int
), taken AS (
    UPDATE holdfast_task t SET status = 'running', version = t.version + 1, fence = t.fence + 1,
        attempts = t.attempts + 1, updated_at = :now::float8, started_at = :now::float8, node = :node::text,
        lease_until = :now::float8 + :lease_seconds::float8, claim_id = :claim_id::text,
        lease_seconds = :own_lease_seconds::float8, progress_json = NULL,
        progress_due_at = :now::float8 + t.progress_timeout_seconds, history = right(t.history || ',' || :record_id::text, 2000)
    WHERE t.ctid = ANY(ARRAY(SELECT tid FROM picked WHERE limits IS NULL AND fair_key IS NULL))
    RETURNING {claimed:t}, t.nth,
        CASE WHEN num_nonnulls({rare:t}, nullif(t.deaths, 0), nullif(t.waiting_on, 0)) > 0
             THEN json_build_array({task:t})::text END AS whole
), recorded AS (
    INSERT INTO holdfast_feed (id, events_count, at, events_json, deltas_json)
    SELECT :record_id::text::bigint, count(*), :now::float8,
        '[' || string_agg(concat(:event_head::text, to_json(id), ',', to_json(type), :event_node::text, attempts, ',"fence":',
                                 fence, '},', CASE project WHEN 'default' THEN '""' ELSE to_json(project)::text END, ',',
                                 version, ']'), ',' ORDER BY priority, due_at, nth) || ']',
        (SELECT json_agg(json_build_array(project, queue, type, priority, s.status, s.sign * n))::text
         FROM (SELECT project, queue, type, priority, count(*) AS n FROM taken
               GROUP BY project, queue, type, priority) g, (VALUES ('queued', -1), ('running', 1)) s(status, sign))
    FROM taken HAVING count(*) > 0
)
SELECT l.limited, l.fair, l.aside_due_at, nth, {claimed}, whole
FROM (SELECT array_agg(id) FILTER (WHERE fair_key IS NULL) AS limited, array_agg(id) FILTER (WHERE fair_key IS NOT NULL) AS fair,
          min(due_at) AS aside_due_at
      FROM picked WHERE limits IS NOT NULL OR fair_key IS NOT NULL) l
LEFT JOIN taken ON true;

-- name: claim_next
-- Claims only the first task, for an idle worker. Its plan starts much faster than that of `claim_plain`. A task
-- with limits, or of a fair type, is left to `claim_plain`. Lists are passed as joined texts, which a client encodes faster than arrays.
-- The lanes come in their order, which a scan of a function and nested loops keep; other joins are off (connection.py).
-- index: holdfast_task_ready
-- returns: task
WITH taken AS (
    UPDATE holdfast_task t SET status = 'running', version = t.version + 1, fence = t.fence + 1,
        attempts = t.attempts + 1, updated_at = :now::float8, started_at = :now::float8, node = :node::text,
        lease_until = :now::float8 + :lease_seconds::float8, claim_id = :claim_id::text,
        lease_seconds = :own_lease_seconds::float8, progress_json = NULL,
        progress_due_at = :now::float8 + t.progress_timeout_seconds, history = right(t.history || ',' || :record_id::text, 2000)
    WHERE t.limits IS NULL AND t.fair_key IS NULL AND t.ctid = (
        SELECT first.tid FROM (
            SELECT q.name, q.priority, q.floor, q.floor_nth
            FROM unnest(string_to_array(:queues::text, E'\n'), string_to_array(:priorities::text, ' ')::smallint[],
                        string_to_array(:floors::text, ' ')::float8[], string_to_array(:floor_nths::text, ' ')::int[])
                q(name, priority, floor, floor_nth)
            WHERE NOT EXISTS (SELECT FROM holdfast_queue h WHERE h.name = q.name AND h.paused_at IS NOT NULL)
        ) lane CROSS JOIN LATERAL (
            SELECT ctid AS tid FROM holdfast_task
            WHERE queue = lane.name AND priority = lane.priority AND status = 'queued' AND gate IS NULL
              AND (due_at, nth) >= (lane.floor, lane.floor_nth) AND due_at <= :now::float8
              AND type = ANY(string_to_array(:types::text, E'\n'))
              AND (:projects::text IS NULL OR project = ANY(string_to_array(:projects::text, E'\n')))
            ORDER BY due_at, nth LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED) first
        LIMIT 1)
    RETURNING {task:t}
), recorded AS (
    INSERT INTO holdfast_feed (id, events_count, at, events_json, deltas_json)
    SELECT :record_id::text::bigint, 1, :now::float8,
        concat('[', :event_head::text, to_json(id), ',', to_json(type), :event_node::text, attempts, ',"fence":', fence, '},',
               CASE project WHEN 'default' THEN '""' ELSE to_json(project)::text END, ',', version, ']]'),
        json_build_array(json_build_array(project, queue, type, priority, 'queued', -1),
                         json_build_array(project, queue, type, priority, 'running', 1))::text
    FROM taken
)
SELECT {task} FROM taken;

-- name: complete_plain
-- Completes tasks without dependents and without limits, fenced, with their events, in one statement. Rows that do
-- not match are left to the general path, which determines the reason. Only then are events and deltas filtered
-- here.
-- index: holdfast_task_pkey
-- returns: id
WITH done AS (
    UPDATE holdfast_task t SET status = 'completed', version = t.version + 1, updated_at = :now::float8,
        finished_at = :now::float8, node = NULL, lease_until = NULL, progress_due_at = NULL, result_json = r.result::text,
        history = right(t.history || ',' || :record_id::text, 2000)
    FROM (SELECT * FROM ROWS FROM (
              unnest(string_to_array(:ids::text, E'\n')), unnest(string_to_array(:fences::text, ',')),
              unnest(string_to_array(:versions::text, ',')), json_array_elements(:results::json))
              WITH ORDINALITY AS u(id, fence, version, result, nth)
          LIMIT :count::int) r
    -- Tests the lease instead of the status, to keep the planner from the index of all running tasks.
    WHERE t.id = r.id AND t.fence = r.fence::bigint AND t.version = r.version::bigint
      AND t.lease_until IS NOT NULL AND t.has_dependents = 0 AND t.limits IS NULL
    RETURNING t.id, t.project, t.queue, t.type, t.priority, r.nth
), recorded AS (
    INSERT INTO holdfast_feed (id, events_count, at, events_json, deltas_json)
    SELECT :record_id::text::bigint, n, :now::float8,
        CASE WHEN n = :count::int THEN :events_json::text
             ELSE (SELECT '[' || string_agg(f.event::text, ',' ORDER BY f.nth) || ']'
                   FROM json_array_elements(:events_json::json) WITH ORDINALITY f(event, nth)
                   WHERE f.nth IN (SELECT nth FROM done)) END,
        CASE WHEN n = :count::int THEN :deltas_json::text
             ELSE (SELECT json_agg(d)::text FROM (
                       SELECT json_build_array(project, queue, type, priority, s.status, s.sign * count(*)) AS d
                       FROM done, (VALUES ('running', -1), ('completed', 1)) s(status, sign)
                       GROUP BY project, queue, type, priority, s.status, s.sign) x) END
    FROM (SELECT count(*) AS n FROM done) c WHERE n > 0
)
SELECT id FROM done;

-- name: complete_alike
-- As `complete_plain`, for tasks with one result. The rows are read in one scan of the index, in the order of the ids:
-- a join with the values of each task would search the index for each. `IS TRUE` keeps the planner from such a join, so
-- fences and versions are looked up in a hash table. Events are chosen by their places: a field of an event cannot be
-- read if a text in it has a NUL.
-- index: holdfast_task_pkey
-- returns: id
WITH done AS (
    UPDATE holdfast_task t SET status = 'completed', version = t.version + 1, updated_at = :now::float8,
        finished_at = :now::float8, node = NULL, lease_until = NULL, progress_due_at = NULL, result_json = :result::text,
        history = right(t.history || ',' || :record_id::text, 2000)
    WHERE t.id = ANY(string_to_array(:ids::text, E'\n'))
      AND ((t.id, t.fence, t.version) IN (SELECT * FROM ROWS FROM (
          unnest(string_to_array(:ids::text, E'\n')), unnest(string_to_array(:fences::text, ',')::bigint[]),
          unnest(string_to_array(:versions::text, ',')::bigint[])))) IS TRUE
      AND t.lease_until IS NOT NULL AND t.has_dependents = 0 AND t.limits IS NULL
    RETURNING t.id, t.project, t.queue, t.type, t.priority
), recorded AS (
    INSERT INTO holdfast_feed (id, events_count, at, events_json, deltas_json)
    SELECT :record_id::text::bigint, n, :now::float8,
        CASE WHEN n = :count::int THEN :events_json::text
             ELSE (SELECT '[' || string_agg(f.event::text, ',' ORDER BY f.nth) || ']'
                   FROM json_array_elements(:events_json::json) WITH ORDINALITY f(event, nth)
                   WHERE f.nth IN (SELECT u.nth FROM unnest(string_to_array(:ids::text, E'\n')) WITH ORDINALITY u(id, nth)
                                   WHERE u.id = ANY(ARRAY(SELECT id FROM done)))) END,
        CASE WHEN n = :count::int THEN :deltas_json::text
             ELSE (SELECT json_agg(d)::text FROM (
                       SELECT json_build_array(project, queue, type, priority, s.status, s.sign * count(*)) AS d
                       FROM done, (VALUES ('running', -1), ('completed', 1)) s(status, sign)
                       GROUP BY project, queue, type, priority, s.status, s.sign) x) END
    FROM (SELECT count(*) AS n FROM done) c WHERE n > 0
)
SELECT id FROM done;
