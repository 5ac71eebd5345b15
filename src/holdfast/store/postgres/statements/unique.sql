-- Unique windows: the task that holds each.

-- name: take_windows
-- Windows that no task holds yet. Waits for a transaction that has taken one of them.
-- index: holdfast_unique_pkey
INSERT INTO holdfast_unique (project, type, key, task_id, taken_at)
SELECT r.project, r.type, r.key, r.task_id, :now::float8
FROM {rows: project text, type text, key text, task_id text} ORDER BY 1, 2, 3
ON CONFLICT (project, type, key) DO NOTHING;

-- name: lock_windows
-- index: holdfast_unique_pkey
-- returns: project type key task_id taken_at
SELECT u.project, u.type, u.key, u.task_id, u.taken_at
FROM holdfast_unique u JOIN {rows: project text, type text, key text}
    ON u.project = r.project AND u.type = r.type AND u.key = r.key
ORDER BY 1, 2, 3 FOR UPDATE OF u;

-- name: move_windows
-- Windows that their holders have left.
-- index: holdfast_unique_pkey
INSERT INTO holdfast_unique (project, type, key, task_id, taken_at)
SELECT r.project, r.type, r.key, r.task_id, :now::float8
FROM {rows: project text, type text, key text, task_id text}
ON CONFLICT (project, type, key) DO UPDATE SET task_id = excluded.task_id, taken_at = excluded.taken_at;
