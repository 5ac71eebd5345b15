-- Tasks: locked reads, version-guarded writes, inserts, searches and pruning.

-- name: get_tasks
-- index: holdfast_task (primary key)
-- returns: task
SELECT {task} FROM holdfast_task WHERE id IN (SELECT value FROM json_each(:ids));

-- name: lock_tasks
-- Sorted, so that all transactions lock in the same order.
-- index: holdfast_task (primary key)
-- returns: task
SELECT {task} FROM holdfast_task WHERE id IN (SELECT value FROM json_each(:ids)) ORDER BY id;

-- name: lock_reporting
-- As `lock_tasks`: with one writer no row is locked.
-- index: holdfast_task (primary key)
-- returns: task
SELECT {task} FROM holdfast_task WHERE id IN (SELECT value FROM json_each(:ids)) ORDER BY id;

-- name: lock_free_tasks
-- With one writer no row is locked by another transaction, so this returns all rows.
-- index: holdfast_task (primary key)
-- returns: task
SELECT {task} FROM holdfast_task WHERE id IN (SELECT value FROM json_each(:ids)) ORDER BY id;

-- name: wait_briefly
-- Does nothing: with one writer there is no row lock to wait for.
SELECT :milliseconds WHERE 0;

-- name: insert_tasks
-- index: holdfast_task (primary key)
INSERT INTO holdfast_task ({new}, history) SELECT {new:r}, :record_id FROM {rows: @new, nth integer};

-- name: write_tasks
-- Guarded by the version: a row is written only in the state that was read.
-- index: holdfast_task (primary key)
-- returns: id
UPDATE holdfast_task AS t SET
    {changed=r},
    history = substr(t.history || ',' || :record_id, -2000)
FROM {rows: id text, seen bigint, @changed}
WHERE t.id = r.id AND t.version = r.seen
RETURNING id;

-- name: note_tasks
-- Adds a record to the history of tasks that it does not change. Their versions stay the same.
-- index: holdfast_task (primary key)
UPDATE holdfast_task SET history = substr(history || ',' || :record_id, -2000)
WHERE id IN (SELECT value FROM json_each(:ids));

-- name: extend_leases
-- A renewal changes no state, so it has no event. It is fenced like every write of a runner. The plus keeps the index of
-- leases out of the plan: after an ANALYZE of an idle file it would be read whole for each row.
-- index: holdfast_task (primary key)
-- returns: id fence
UPDATE holdfast_task AS t SET lease_until = :until
FROM {rows: id text, fence integer}
WHERE t.id = r.id AND t.fence = r.fence AND +t.status IN ('running', 'stuck')
RETURNING id, fence;

-- name: owned_tasks
-- The tasks that run on a node.
-- index: holdfast_task_lease
-- returns: id fence started_at
SELECT id, fence, started_at FROM holdfast_task WHERE status IN ('running', 'stuck') AND node = :node;

-- name: ending_leases
-- The expired leases, or else the one that expires first.
-- index: holdfast_task_lease
-- returns: id fence lease_until
SELECT id, fence, lease_until FROM holdfast_task
WHERE status IN ('running', 'stuck') AND lease_until <= max(:now,
    (SELECT min(lease_until) FROM holdfast_task WHERE status IN ('running', 'stuck')))
ORDER BY lease_until LIMIT :limit;

-- name: find_tasks
-- U+10FFFF is greater than every character of an id.
-- index: holdfast_task (primary key), or the partial index of the status
-- returns: task
SELECT {task} FROM holdfast_task
WHERE (:status IS NULL OR status = :status) AND (:type IS NULL OR type = :type)
  AND (:queue IS NULL OR queue = :queue) AND (:project IS NULL OR project = :project)
  AND (:after IS NULL OR id < :after)
  AND (:prefix IS NULL OR (id >= :prefix AND id < :prefix || char(1114111)))
ORDER BY id DESC LIMIT :limit;

-- name: share_names
-- One transaction writes at a time, so an id and an equal name are created one after the other.
SELECT r.name FROM {rows: project text, name text} WHERE false;

-- name: lock_names
-- As `share_names`.
SELECT r.name FROM {rows: project text, name text} WHERE false;

-- name: find_existing
-- The tasks of ids, of any project, and of keys within their project. A row of status 'named': a node of the project has
-- given the id to another task as its name.
-- index: holdfast_task (primary key), holdfast_task_key, holdfast_sync_task (primary key)
-- returns: id type idempotency_key request_hash status project
SELECT t.id, t.type, t.idempotency_key, t.request_hash, t.status, t.project
FROM {rows: id text, project text, type text, key text} CROSS JOIN holdfast_task t ON t.id = r.id
UNION
SELECT s.client_id, '', NULL, NULL, 'named', s.project
FROM {rows: id text, project text, type text, key text} CROSS JOIN holdfast_sync_task s ON s.project = r.project AND s.client_id = r.id
WHERE s.task_id <> r.id
UNION
SELECT t.id, t.type, t.idempotency_key, t.request_hash, t.status, t.project
FROM {rows: id text, project text, type text, key text}
CROSS JOIN holdfast_task t ON t.type = r.type AND t.idempotency_key = r.key AND t.project = r.project;

-- name: task_history
-- index: holdfast_task (primary key)
-- returns: history
SELECT history FROM holdfast_task WHERE id = :id;

-- name: prune_tasks
-- Executions of jobs are left to the retention of the fleet. A parent stays while one of its latest dependents has
-- not ended, because that reads its result; at most 1,000 are looked at.
-- index: holdfast_task_finished, holdfast_cascade (primary key), holdfast_cascade_held (primary key), holdfast_edge_parent, holdfast_task (primary key)
-- returns: id project queue type priority status
DELETE FROM holdfast_task WHERE id IN (
    SELECT id FROM holdfast_task
    WHERE finished_at IS NOT NULL AND finished_at < :before AND type <> 'fleet.run' AND (keep_done_seconds IS NULL OR status = 'failed')
      AND (status <> 'failed' OR finished_at < :dead_before)
      AND NOT EXISTS (SELECT 1 FROM holdfast_cascade c WHERE c.parent_id = holdfast_task.id)
      AND NOT EXISTS (SELECT 1 FROM holdfast_cascade_held h WHERE h.parent_id = holdfast_task.id)
      AND (holdfast_task.has_dependents = 0 OR (SELECT 1 FROM (SELECT e.child_id FROM holdfast_edge e
            WHERE e.parent_id = holdfast_task.id ORDER BY e.child_id DESC LIMIT 1000) e JOIN holdfast_task w ON w.id = e.child_id
            WHERE w.finished_at IS NULL LIMIT 1) IS NULL)
      AND NOT EXISTS (SELECT 1 FROM holdfast_sync_task s WHERE s.task_id = holdfast_task.id)
    ORDER BY finished_at LIMIT :limit)
RETURNING id, project, queue, type, priority, status;

-- name: delete_tasks
-- Those of the tasks that have ended.
-- index: holdfast_task (primary key)
-- returns: id project queue type priority status
DELETE FROM holdfast_task WHERE id IN (SELECT value FROM json_each(:ids)) AND finished_at IS NOT NULL
RETURNING id, project, queue, type, priority, status;

-- name: clients_of
-- The names of tasks.
-- index: holdfast_sync_task_of
-- returns: task_id client_id
SELECT task_id, client_id FROM holdfast_sync_task WHERE task_id IN (SELECT value FROM json_each(:ids));

-- name: tasks_named
-- The tasks of names, in all projects.
-- index: holdfast_sync_task_client
-- returns: client_id task_id
SELECT client_id, task_id FROM holdfast_sync_task
WHERE client_id IN (SELECT value FROM json_each(:names));

-- name: task_metrics
-- index: holdfast_task_metric (primary key)
-- returns: task_id name total
SELECT task_id, name, sum(value) AS total FROM holdfast_task_metric
WHERE task_id IN (SELECT value FROM json_each(:ids)) GROUP BY task_id, name ORDER BY task_id, name;
