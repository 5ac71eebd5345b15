-- Tasks: locked reads, version-guarded writes, inserts, searches and pruning.

-- name: get_tasks
-- index: holdfast_task_pkey
-- returns: task
SELECT {task} FROM holdfast_task WHERE id = ANY(:ids::text[]);

-- name: lock_tasks
-- Sorted, so that all transactions lock in the same order.
-- index: holdfast_task_pkey
-- returns: task
SELECT {task} FROM holdfast_task WHERE id = ANY(:ids::text[]) ORDER BY id FOR UPDATE;

-- name: lock_reporting
-- For reports of the runner. The lock does not conflict with a step that the handler ended in an open transaction.
-- index: holdfast_task_pkey
-- returns: task
SELECT {task} FROM holdfast_task WHERE id = ANY(:ids::text[]) ORDER BY id FOR NO KEY UPDATE;

-- name: lock_free_tasks
-- As `lock_tasks`, but skips tasks that another transaction holds.
-- index: holdfast_task_pkey
-- returns: task
SELECT {task} FROM holdfast_task WHERE id = ANY(:ids::text[]) ORDER BY id FOR UPDATE SKIP LOCKED;

-- name: wait_briefly
-- Sets the lock timeout for the rest of this transaction.
SELECT set_config('lock_timeout', :milliseconds::text, true);

-- name: insert_tasks
-- index: holdfast_task_pkey
INSERT INTO holdfast_task ({new}, nth, history)
SELECT {new:r}, r.nth, :record_id::text FROM {rows: @new, nth integer};

-- name: write_tasks
-- Guarded by the version: a row is written only in the state that was read.
-- index: holdfast_task_pkey
-- returns: id
UPDATE holdfast_task t SET
    {changed=r},
    history = right(t.history || ',' || :record_id::text, 2000)
FROM {rows: id text, seen bigint, @changed}
WHERE t.id = r.id AND t.version = r.seen
RETURNING t.id;

-- name: note_tasks
-- Adds a record to the history of tasks that it does not change. Their versions stay the same.
-- index: holdfast_task_pkey
UPDATE holdfast_task SET history = right(history || ',' || :record_id::text, 2000)
WHERE id = ANY(:ids::text[]);

-- name: extend_leases
-- A renewal changes no state, so it has no event. It is fenced like every write of a runner. A row that another
-- transaction holds is skipped, so that it does not delay the renewal of the others.
-- index: holdfast_task_pkey
-- returns: id fence
WITH free AS MATERIALIZED (
    SELECT t.id FROM {rows: id text, fence bigint} JOIN holdfast_task t ON t.id = r.id
    WHERE t.fence = r.fence AND t.lease_until IS NOT NULL FOR NO KEY UPDATE OF t SKIP LOCKED
)
UPDATE holdfast_task t SET lease_until = :until::float8 FROM free WHERE t.id = free.id RETURNING t.id, t.fence;

-- name: owned_tasks
-- The tasks that run on a node.
-- index: holdfast_task_lease
-- returns: id fence started_at
SELECT id, fence, started_at FROM holdfast_task
WHERE status IN ('running', 'stuck') AND lease_until >= :floor::float8 AND node = :node::text;

-- name: ending_leases
-- The expired leases, or else the one that expires first. Rows that another transaction holds are skipped and do not
-- use up the limit. The first lease is always returned, because no lease expires before it.
-- index: holdfast_task_lease
-- returns: id fence lease_until
WITH first AS MATERIALIZED (
    SELECT id, fence, lease_until FROM holdfast_task WHERE status IN ('running', 'stuck') AND lease_until >= :floor::float8
    ORDER BY lease_until LIMIT 1
), free AS MATERIALIZED (
    SELECT id, fence, lease_until FROM holdfast_task
    WHERE status IN ('running', 'stuck') AND lease_until >= (SELECT lease_until FROM first) AND lease_until <= :now::float8
    ORDER BY lease_until LIMIT :limit::int FOR UPDATE SKIP LOCKED
)
SELECT id, fence, lease_until FROM first UNION SELECT id, fence, lease_until FROM free ORDER BY lease_until;

-- name: find_tasks
-- U+10FFFF is greater than every character of an id.
-- index: holdfast_task_pkey, or the partial index of the status
-- returns: task
SELECT {task} FROM holdfast_task
WHERE (:status::text IS NULL OR status = :status::text) AND (:type::text IS NULL OR type = :type::text)
  AND (:queue::text IS NULL OR queue = :queue::text)
  AND (:project::text IS NULL OR project = :project::text) AND (:after::text IS NULL OR id < :after::text)
  AND (:prefix::text IS NULL OR (id >= :prefix::text AND id < :prefix::text || chr(1114111)))
ORDER BY id DESC LIMIT :limit::int;

-- name: share_names
-- Locks names that are about to be ids of tasks. The names of a project and the ids of its tasks are one name space in
-- two tables, which no unique index covers: an id and an equal name are created one after the other. Inserts do not
-- block one another. The locks are buckets, because the server's table of locks is small.
SELECT pg_advisory_xact_lock_shared(1751937126, bucket) FROM (
    SELECT DISTINCT hashtext(r.project || chr(10) || r.name) & 255 AS bucket
    FROM {rows: project text, name text} ORDER BY 1) AS buckets;

-- name: lock_names
-- As `share_names`, for names that a node is about to give to tasks.
SELECT pg_advisory_xact_lock(1751937126, bucket) FROM (
    SELECT DISTINCT hashtext(r.project || chr(10) || r.name) & 255 AS bucket
    FROM {rows: project text, name text} ORDER BY 1) AS buckets;

-- name: find_existing
-- The tasks of ids, of any project, and of keys within their project. A row of status 'named': a node of the project has
-- given the id to another task as its name.
-- index: holdfast_task_pkey, holdfast_task_key, holdfast_sync_task_pkey
-- returns: id type idempotency_key request_hash status project
SELECT t.id, t.type, t.idempotency_key, t.request_hash, t.status, t.project FROM holdfast_task t
JOIN {rows: id text, project text, type text, key text} ON t.id = r.id
UNION
SELECT s.client_id, '', NULL, NULL, 'named', s.project FROM holdfast_sync_task s
JOIN {rows: id text, project text, type text, key text} ON s.project = r.project AND s.client_id = r.id WHERE s.task_id <> r.id
UNION
SELECT t.id, t.type, t.idempotency_key, t.request_hash, t.status, t.project FROM holdfast_task t
JOIN {rows: id text, project text, type text, key text}
    ON t.type = r.type AND t.idempotency_key = r.key AND t.project = r.project;

-- name: task_history
-- index: holdfast_task_pkey
-- returns: history
SELECT history FROM holdfast_task WHERE id = :id::text;

-- name: prune_tasks
-- Deletes ended tasks with the rows that belong to them, and subtracts them from the counters. Tasks that nodes know
-- by a name are left to `prunable_named`, executions of jobs to the retention of the fleet. A parent stays while one of
-- its latest dependents has not ended, because that reads its result; at most 1,000 are looked at.
-- index: holdfast_task_finished, holdfast_cascade_pkey, holdfast_cascade_held_pkey, holdfast_counter_pkey, holdfast_ledger_pkey, holdfast_decision_key, holdfast_checkpoint_task, holdfast_intervention_task, holdfast_output_pkey, holdfast_task_metric_pkey, holdfast_unique_task, holdfast_member_task, holdfast_task_tag_task, holdfast_edge_pkey, holdfast_edge_parent, holdfast_task_pkey
-- returns: gone through
WITH gone AS (
    DELETE FROM holdfast_task WHERE id IN (
        SELECT id FROM holdfast_task
        WHERE finished_at IS NOT NULL AND finished_at >= :floor::float8 AND finished_at < :before::float8
          AND type <> 'fleet.run' AND (keep_done_seconds IS NULL OR status = 'failed')
          AND (status <> 'failed' OR finished_at < :dead_before::float8)
          AND NOT EXISTS (SELECT FROM holdfast_cascade c WHERE c.parent_id = holdfast_task.id)
          AND NOT EXISTS (SELECT FROM holdfast_cascade_held h WHERE h.parent_id = holdfast_task.id)
          AND (holdfast_task.has_dependents = 0 OR (SELECT 1 FROM (SELECT e.child_id FROM holdfast_edge e
                WHERE e.parent_id = holdfast_task.id ORDER BY e.child_id DESC LIMIT 1000) e JOIN holdfast_task w ON w.id = e.child_id
                WHERE w.finished_at IS NULL LIMIT 1) IS NULL)
          AND NOT EXISTS (SELECT FROM holdfast_sync_task s WHERE s.task_id = holdfast_task.id)
        ORDER BY finished_at LIMIT :limit::int FOR UPDATE SKIP LOCKED)
    RETURNING id, project, queue, type, priority, status, finished_at
), steps AS (
    DELETE FROM holdfast_ledger l USING gone g WHERE l.scope = 'holdfast.step' AND l.key = g.id
), decisions AS (
    DELETE FROM holdfast_decision d USING gone g WHERE d.task_id = g.id
), checkpoints AS (
    DELETE FROM holdfast_checkpoint c USING gone g WHERE c.task_id = g.id
), interventions AS (
    DELETE FROM holdfast_intervention i USING gone g WHERE i.task_id = g.id
), output AS (
    DELETE FROM holdfast_output o USING gone g WHERE o.task_id = g.id
), metrics AS (
    DELETE FROM holdfast_task_metric m USING gone g WHERE m.task_id = g.id
), windows AS (
    DELETE FROM holdfast_unique u USING gone g WHERE u.task_id = g.id
), members AS (
    DELETE FROM holdfast_member m USING gone g WHERE m.task_id = g.id
), tags AS (
    DELETE FROM holdfast_task_tag x USING gone g WHERE x.task_id = g.id
), edges AS (
    DELETE FROM holdfast_edge e USING gone g WHERE e.child_id = g.id
), counted AS (
    INSERT INTO holdfast_counter AS c (project, queue, type, priority, status, n)
    SELECT project, queue, type, priority, status, -count(*) FROM gone GROUP BY 1, 2, 3, 4, 5
    ON CONFLICT (project, queue, type, priority, status) DO UPDATE SET n = c.n + excluded.n
)
SELECT count(*) AS gone, max(finished_at) AS through FROM gone;

-- name: delete_tasks
-- Those of the tasks that have ended, with the rows that belong to them. They are subtracted from the counters.
-- index: holdfast_task_pkey, holdfast_counter_pkey, holdfast_ledger_pkey, holdfast_decision_key, holdfast_checkpoint_task, holdfast_intervention_task, holdfast_output_pkey, holdfast_task_metric_pkey, holdfast_unique_task, holdfast_member_task, holdfast_task_tag_task, holdfast_edge_pkey
-- returns: id project queue type priority status
WITH gone AS (
    DELETE FROM holdfast_task WHERE id = ANY(:ids::text[]) AND finished_at IS NOT NULL
    RETURNING id, project, queue, type, priority, status
), steps AS (
    DELETE FROM holdfast_ledger l USING gone g WHERE l.scope = 'holdfast.step' AND l.key = g.id
), decisions AS (
    DELETE FROM holdfast_decision d USING gone g WHERE d.task_id = g.id
), checkpoints AS (
    DELETE FROM holdfast_checkpoint c USING gone g WHERE c.task_id = g.id
), interventions AS (
    DELETE FROM holdfast_intervention i USING gone g WHERE i.task_id = g.id
), output AS (
    DELETE FROM holdfast_output o USING gone g WHERE o.task_id = g.id
), metrics AS (
    DELETE FROM holdfast_task_metric m USING gone g WHERE m.task_id = g.id
), windows AS (
    DELETE FROM holdfast_unique u USING gone g WHERE u.task_id = g.id
), members AS (
    DELETE FROM holdfast_member m USING gone g WHERE m.task_id = g.id
), tags AS (
    DELETE FROM holdfast_task_tag x USING gone g WHERE x.task_id = g.id
), edges AS (
    DELETE FROM holdfast_edge e USING gone g WHERE e.child_id = g.id
), counted AS (
    INSERT INTO holdfast_counter AS c (project, queue, type, priority, status, n)
    SELECT project, queue, type, priority, status, -count(*) FROM gone GROUP BY 1, 2, 3, 4, 5
    ON CONFLICT (project, queue, type, priority, status) DO UPDATE SET n = c.n + excluded.n
)
SELECT id, project, queue, type, priority, status FROM gone;

-- name: clients_of
-- The names of tasks.
-- index: holdfast_sync_task_of
-- returns: task_id client_id
SELECT task_id, client_id FROM holdfast_sync_task WHERE task_id = ANY(:ids::text[]);

-- name: tasks_named
-- The tasks of names, in all projects.
-- index: holdfast_sync_task_client
-- returns: client_id task_id
SELECT client_id, task_id FROM holdfast_sync_task WHERE client_id = ANY(:names::text[]);

-- name: task_metrics
-- index: holdfast_task_metric_pkey
-- returns: task_id name total
SELECT task_id, name, sum(value) AS total FROM holdfast_task_metric
WHERE task_id = ANY(:ids::text[]) GROUP BY task_id, name ORDER BY task_id, name;
