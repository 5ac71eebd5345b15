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
    lease_until = :now + :lease_seconds, history = substr(history || ',' || :record_id, -2000)
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
-- When the next task that waits for its time is due, and when the next limit lets tasks in.
-- index: holdfast_task_ready, holdfast_limit_opens
-- returns: due_at opens_at
SELECT min(due_at) AS due_at,
    (SELECT opens_at FROM holdfast_limit WHERE opens_at IS NOT NULL ORDER BY opens_at LIMIT 1) AS opens_at
FROM (
    SELECT (SELECT due_at FROM holdfast_task
            WHERE queue = q.value AND priority = p.value AND status = 'queued' AND gate IS NULL AND due_at > :now
            ORDER BY due_at LIMIT 1) AS due_at
    FROM json_each(:queues) q, json_each('[0,1,2,3]') p);

-- name: first_due
-- Since when, or from when on, the first task in line has been due; and when the next limit lets tasks in.
-- index: holdfast_task_ready, holdfast_limit_opens
-- returns: due_at opens_at
SELECT min(due_at) AS due_at,
    (SELECT opens_at FROM holdfast_limit WHERE opens_at IS NOT NULL ORDER BY opens_at LIMIT 1) AS opens_at
FROM (
    SELECT (SELECT due_at FROM holdfast_task
            WHERE queue = q.value AND priority = p.value AND status = 'queued' AND gate IS NULL
            ORDER BY due_at LIMIT 1) AS due_at
    FROM json_each(:queues) q, json_each('[0,1,2,3]') p);

-- name: start_one
-- A new task that runs with its first commit, both facts in one call: unless its queue is paused or somebody
-- in these queues is before it in line. Then nothing is written; the number of rows says so.
-- index: holdfast_task_ready, holdfast_task (primary key), holdfast_feed (primary key)
INSERT INTO holdfast_feed (first_offset, events_count, at, events_json, deltas_json)
SELECT (SELECT coalesce(max(first_offset), 0) + coalesce((SELECT events_count FROM holdfast_feed
                                                          ORDER BY first_offset DESC LIMIT 1), 1)
        FROM holdfast_feed), :events_count, :now, :events_json, :deltas_json
WHERE NOT EXISTS (SELECT 1 FROM holdfast_queue WHERE name = :queue AND paused_at IS NOT NULL)
  AND NOT EXISTS (
    SELECT 1 FROM json_each(:queues) q CROSS JOIN json_each('[0,1,2,3]') p CROSS JOIN holdfast_task t
    WHERE t.queue = q.value AND t.priority = p.value AND t.status = 'queued' AND t.gate IS NULL
      AND t.due_at <= :now);
INSERT INTO holdfast_task ({plain}, status, attempts, version, fence, created_at, updated_at, due_at, started_at,
    node, lease_until, history)
SELECT {plain?}, 'running', 1, 2, 1, :now, :now, :due_at, :now, :node, :lease_until,
    CAST(last_insert_rowid() AS text)
WHERE changes() = 1;
