-- Unique windows: the task that holds each.

-- name: take_windows
-- Windows that no task holds yet.
-- index: holdfast_unique (primary key)
INSERT INTO holdfast_unique (project, type, key, task_id, taken_at)
SELECT project, type, key, task_id, :now
FROM {rows: project text, type text, key text, task_id text} WHERE true
ON CONFLICT (project, type, key) DO NOTHING;

-- name: lock_windows
-- index: holdfast_unique (primary key)
-- returns: project type key task_id taken_at
SELECT u.project, u.type, u.key, u.task_id, u.taken_at
FROM {rows: project text, type text, key text}
CROSS JOIN holdfast_unique u ON u.project = r.project AND u.type = r.type AND u.key = r.key;

-- name: move_windows
-- Windows that their holders have left.
-- index: holdfast_unique (primary key)
INSERT INTO holdfast_unique (project, type, key, task_id, taken_at)
SELECT project, type, key, task_id, :now
FROM {rows: project text, type text, key text, task_id text} WHERE true
ON CONFLICT (project, type, key) DO UPDATE SET task_id = excluded.task_id, taken_at = excluded.taken_at;

-- name: forget_windows
-- index: holdfast_unique_task
DELETE FROM holdfast_unique WHERE task_id IN (SELECT value FROM json_each(:ids));
