-- Claims: which task is next, and taking it. One writer at a time, so nothing needs a row lock.

-- name: pick_lane
-- index: holdfast_task_ready
-- returns: task
SELECT {task} FROM holdfast_task
WHERE queue = :queue AND priority = :priority AND status = 'queued' AND gate IS NULL
  AND due_at <= :now AND type IN (SELECT value FROM json_each(:types))
ORDER BY due_at, rowid LIMIT :limit;

-- name: scan_lane
-- The same as `pick_lane`, but only where the rows are and whether a limit counts them.
-- index: holdfast_task_ready
-- returns: row_id limited
SELECT rowid AS row_id, limits IS NOT NULL AS limited FROM holdfast_task
WHERE queue = :queue AND priority = :priority AND status = 'queued' AND gate IS NULL
  AND due_at <= :now AND type IN (SELECT value FROM json_each(:types))
ORDER BY due_at, rowid LIMIT :limit;

-- name: take_rows
-- index: holdfast_task (rowid)
UPDATE holdfast_task SET status = 'running', version = version + 1, fence = fence + 1,
    attempts = attempts + 1, updated_at = :now, started_at = :now, node = :node,
    lease_until = :now + :lease_seconds, history = substr(history || ',' || :batch, -2000)
WHERE rowid IN (SELECT value FROM json_each(:row_ids)) AND status = 'queued';

-- name: get_rows
-- index: holdfast_task (rowid)
-- returns: task
SELECT {task:t} FROM json_each(:row_ids) r JOIN holdfast_task t ON t.rowid = r.value;

-- name: lock_queued
-- index: holdfast_task (primary key)
-- returns: task
SELECT {task} FROM holdfast_task
WHERE id IN (SELECT value FROM json_each(:ids)) AND status = 'queued' AND gate IS NULL
ORDER BY priority, due_at, rowid;

-- name: next_due
-- When the next task that waits for its time is due.
-- index: holdfast_task_ready
-- returns: due_at
SELECT min(due_at) AS due_at FROM (
    SELECT (SELECT due_at FROM holdfast_task
            WHERE queue = q.value AND priority = p.value AND status = 'queued' AND gate IS NULL AND due_at > :now
            ORDER BY due_at LIMIT 1) AS due_at
    FROM json_each(:queues) q, json_each('[0,1,2,3]') p);

-- name: first_due
-- Since when, or from when on, the first task in line has been due.
-- index: holdfast_task_ready
-- returns: due_at
SELECT min(due_at) AS due_at FROM (
    SELECT (SELECT due_at FROM holdfast_task
            WHERE queue = q.value AND priority = p.value AND status = 'queued' AND gate IS NULL
            ORDER BY due_at LIMIT 1) AS due_at
    FROM json_each(:queues) q, json_each('[0,1,2,3]') p);

-- name: ahead
-- Since when or from when on the first task in line is due, and whether a queue is paused.
-- index: holdfast_task_ready, holdfast_queue (primary key)
-- returns: due_at paused_at
SELECT (SELECT min(due_at) FROM (
    SELECT (SELECT due_at FROM holdfast_task
            WHERE queue = q.value AND priority = p.value AND status = 'queued' AND gate IS NULL
            ORDER BY due_at LIMIT 1) AS due_at
    FROM json_each(:queues) q, json_each('[0,1,2,3]') p)) AS due_at,
    (SELECT paused_at FROM holdfast_queue WHERE name = :queue) AS paused_at;

-- name: start_one
-- As `insert_one`, and the task starts in the same breath: what a caller beside an idle worker waits for.
-- index: holdfast_task (primary key), holdfast_feed (primary key)
INSERT INTO holdfast_feed (first_offset, facts_count, at, facts_json, deltas_json)
VALUES ((SELECT coalesce(max(first_offset), 0) + coalesce((SELECT facts_count FROM holdfast_feed
                                                           ORDER BY first_offset DESC LIMIT 1), 1)
         FROM holdfast_feed), 2, :now, :facts_json, :deltas_json);
INSERT INTO holdfast_task (id, type, queue, priority, status, payload_json, metadata_json,
    options_json, attempts, max_attempts, deaths, version, fence, created_at, updated_at, due_at,
    history)
VALUES (:id, :type, :queue, :priority, 'queued', :payload_json, :metadata_json, :options_json,
    0, :max_attempts, 0, 1, 0, :now, :now, :due_at, CAST(last_insert_rowid() AS text));
UPDATE holdfast_task SET status = 'running', version = 2, fence = 1, attempts = 1, started_at = :now,
    node = :node, lease_until = :lease_until
WHERE rowid = last_insert_rowid();
