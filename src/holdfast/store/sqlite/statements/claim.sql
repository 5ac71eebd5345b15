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

-- name: start_one
-- A task that was brought in right before, in the same transaction.
-- index: holdfast_task (primary key)
UPDATE holdfast_task SET status = 'running', version = 2, fence = 1, attempts = 1, started_at = :now,
    node = :node, lease_until = :lease_until
WHERE id = :id AND status = 'queued' AND version = 1;
