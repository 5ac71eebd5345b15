-- Retention of what the exchange with nodes keeps.

-- name: prunable_named
-- Ended tasks that nodes know by a name, without dependents that wait or run. They leave a tombstone.
-- index: holdfast_task_finished, holdfast_sync_task_of, holdfast_cascade (primary key), holdfast_cascade_held (primary key), holdfast_edge_parent, holdfast_task (primary key)
-- returns: id project type version client_id
SELECT t.id, t.project, t.type, t.version, s.client_id
FROM holdfast_task t JOIN holdfast_sync_task s ON s.task_id = t.id
WHERE t.finished_at IS NOT NULL AND t.finished_at < :before
  AND t.type <> 'fleet.run' AND (t.keep_done_seconds IS NULL OR t.status = 'failed')
  AND (t.status <> 'failed' OR t.finished_at < :dead_before)
  AND NOT EXISTS (SELECT 1 FROM holdfast_cascade c WHERE c.parent_id = t.id)
  AND NOT EXISTS (SELECT 1 FROM holdfast_cascade_held h WHERE h.parent_id = t.id)
  AND (t.has_dependents = 0 OR (SELECT 1 FROM (SELECT e.child_id FROM holdfast_edge e
        WHERE e.parent_id = t.id ORDER BY e.child_id DESC LIMIT 1000) e JOIN holdfast_task w ON w.id = e.child_id
        WHERE w.finished_at IS NULL LIMIT 1) IS NULL)
ORDER BY t.finished_at LIMIT :limit;

-- name: kept_named
-- As `prunable_named`, of tasks with a retention of their type.
-- index: holdfast_task_kept, holdfast_sync_task_of, holdfast_cascade (primary key), holdfast_cascade_held (primary key), holdfast_edge_parent, holdfast_task (primary key)
-- returns: id project type version client_id
SELECT t.id, t.project, t.type, t.version, s.client_id
FROM holdfast_task t JOIN holdfast_sync_task s ON s.task_id = t.id
WHERE t.keep_done_seconds IS NOT NULL AND t.status IN ('completed', 'aborted')
  AND t.finished_at + t.keep_done_seconds < :now
  AND NOT EXISTS (SELECT 1 FROM holdfast_cascade c WHERE c.parent_id = t.id)
  AND NOT EXISTS (SELECT 1 FROM holdfast_cascade_held h WHERE h.parent_id = t.id)
  AND (t.has_dependents = 0 OR (SELECT 1 FROM (SELECT e.child_id FROM holdfast_edge e
        WHERE e.parent_id = t.id ORDER BY e.child_id DESC LIMIT 1000) e JOIN holdfast_task w ON w.id = e.child_id
        WHERE w.finished_at IS NULL LIMIT 1) IS NULL)
ORDER BY t.finished_at + t.keep_done_seconds LIMIT :limit;

-- name: ended_kept
-- Tasks with a retention of their type that has passed, without dependents that wait or run. Those that nodes know by a name are left to `kept_named`.
-- index: holdfast_task_kept, holdfast_cascade (primary key), holdfast_cascade_held (primary key), holdfast_edge_parent, holdfast_task (primary key)
-- returns: id
SELECT id FROM holdfast_task
WHERE keep_done_seconds IS NOT NULL AND status IN ('completed', 'aborted')
  AND finished_at + keep_done_seconds < :now
  AND NOT EXISTS (SELECT 1 FROM holdfast_cascade c WHERE c.parent_id = holdfast_task.id)
  AND NOT EXISTS (SELECT 1 FROM holdfast_cascade_held h WHERE h.parent_id = holdfast_task.id)
  AND (holdfast_task.has_dependents = 0 OR (SELECT 1 FROM (SELECT e.child_id FROM holdfast_edge e
        WHERE e.parent_id = holdfast_task.id ORDER BY e.child_id DESC LIMIT 1000) e JOIN holdfast_task w ON w.id = e.child_id
        WHERE w.finished_at IS NULL LIMIT 1) IS NULL)
  AND NOT EXISTS (SELECT 1 FROM holdfast_sync_task s WHERE s.task_id = holdfast_task.id)
ORDER BY finished_at + keep_done_seconds LIMIT :limit;

-- name: delete_names
-- index: holdfast_sync_task_of
DELETE FROM holdfast_sync_task WHERE task_id IN (SELECT value FROM json_each(:ids));

-- name: add_tombstones
-- index: holdfast_tombstone (primary key)
INSERT INTO holdfast_tombstone (project, client_id, task_id, version, at, reason)
SELECT project, client_id, task_id, version, :now, 'retention'
FROM {rows: project text, client_id text, task_id text, version integer} WHERE true
ON CONFLICT (project, client_id) DO UPDATE SET task_id = excluded.task_id, version = excluded.version,
    at = excluded.at;

-- name: forget_mutations
-- index: holdfast_mutation_at
-- returns: gone
DELETE FROM holdfast_mutation WHERE (node, id) IN (
    SELECT node, id FROM holdfast_mutation WHERE at < :before ORDER BY at LIMIT :limit)
RETURNING 1 AS gone;

-- name: forget_sync_log
-- index: holdfast_sync_log_at
-- returns: gone
DELETE FROM holdfast_sync_log WHERE id IN (
    SELECT id FROM holdfast_sync_log WHERE at < :before ORDER BY at LIMIT :limit)
RETURNING 1 AS gone;

-- name: trim_sync_log
-- The newest rows of each project stay.
-- index: holdfast_sync_log_project
-- returns: gone
DELETE FROM holdfast_sync_log WHERE id IN (
    SELECT l.id FROM holdfast_project p
    JOIN holdfast_sync_log l ON l.project = p.id AND l.id <= (
        SELECT x.id FROM holdfast_sync_log x WHERE x.project = p.id ORDER BY x.id DESC LIMIT 1 OFFSET :most)
    LIMIT :limit)
RETURNING 1 AS gone;

-- name: forget_tombstones
-- index: holdfast_tombstone_at
-- returns: gone
DELETE FROM holdfast_tombstone WHERE (project, client_id) IN (
    SELECT project, client_id FROM holdfast_tombstone WHERE at < :before ORDER BY at LIMIT :limit)
RETURNING 1 AS gone;

-- name: forget_conflicts
-- Settled conflicts. An open one waits for a person as long as it takes.
-- index: holdfast_conflict_settled
-- returns: gone
DELETE FROM holdfast_conflict WHERE id IN (
    SELECT id FROM holdfast_conflict WHERE state = 'settled' AND settled_at < :before
    ORDER BY settled_at LIMIT :limit)
RETURNING 1 AS gone;

-- name: trim_conflicts
-- The newest settled conflicts of each project stay.
-- index: holdfast_conflict_project
-- returns: gone
DELETE FROM holdfast_conflict WHERE id IN (
    SELECT l.id FROM holdfast_project p
    JOIN holdfast_conflict l ON l.project = p.id AND l.state = 'settled' AND l.id <= (
        SELECT x.id FROM holdfast_conflict x WHERE x.project = p.id ORDER BY x.id DESC LIMIT 1 OFFSET :most)
    LIMIT :limit)
RETURNING 1 AS gone;

-- name: prune_output
-- Output of ended tasks that are pruned next: long streams are removed in several transactions. That of executions
-- goes with their jobs.
-- index: holdfast_task_finished, holdfast_output (primary key)
-- returns: gone
DELETE FROM holdfast_output WHERE (task_id, fence, stream, start) IN (
    SELECT o.task_id, o.fence, o.stream, o.start
    FROM (SELECT id FROM holdfast_task
          WHERE finished_at IS NOT NULL AND finished_at < :before
            AND type <> 'fleet.run' AND (keep_done_seconds IS NULL OR status = 'failed')
            AND (status <> 'failed' OR finished_at < :dead_before)
          ORDER BY finished_at LIMIT :tasks) ended
    CROSS JOIN holdfast_output o ON o.task_id = ended.id LIMIT :limit)
RETURNING 1 AS gone;

-- name: forget_old_output
-- Output of tasks that ended long ago; the tasks are kept longer. None is younger than the end of its task.
-- index: holdfast_output_at, holdfast_task (primary key)
-- returns: gone
DELETE FROM holdfast_output WHERE (task_id, fence, stream, start) IN (
    SELECT o.task_id, o.fence, o.stream, o.start
    FROM holdfast_output o CROSS JOIN holdfast_task t ON t.id = o.task_id
    WHERE o.at < :before AND t.finished_at < :before ORDER BY o.at LIMIT :limit)
RETURNING 1 AS gone;

-- name: forget_output
-- index: holdfast_output (primary key)
DELETE FROM holdfast_output WHERE task_id IN (SELECT value FROM json_each(:ids));

-- name: forget_metrics
-- index: holdfast_task_metric (primary key)
DELETE FROM holdfast_task_metric WHERE task_id IN (SELECT value FROM json_each(:ids));

-- name: forget_bulk_runs
-- Runs that have ended or were stopped.
-- index: holdfast_bulk_run_ended
-- returns: gone
DELETE FROM holdfast_bulk_run WHERE id IN (
    SELECT id FROM holdfast_bulk_run WHERE state <> 'running' AND updated_at < :before
    ORDER BY updated_at LIMIT :limit)
RETURNING 1 AS gone;
