-- Claims: select the next tasks. SQLite has one writer at a time, so no row locks are needed.

-- name: pick_lane
-- index: holdfast_task_ready
-- returns: task
SELECT {task} FROM holdfast_task
WHERE queue = :queue AND priority = :priority AND status = 'queued' AND gate IS NULL
  AND due_at <= :now AND type IN (SELECT value FROM json_each(:types))
  AND (:projects IS NULL OR project IN (SELECT value FROM json_each(:projects)))
ORDER BY due_at, rowid LIMIT :limit;

-- name: lock_queued
-- index: holdfast_task (primary key)
-- returns: task
SELECT {task} FROM holdfast_task
WHERE id IN (SELECT value FROM json_each(:ids)) AND status = 'queued' AND gate IS NULL
ORDER BY priority, due_at, rowid;

-- name: next_due
-- When the next delayed task is due, and when the next limit opens.
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
-- The earliest due time of all ready or delayed tasks, and when the next limit opens. The time of the store is that of
-- the machine: `server_at` is for servers.
-- index: holdfast_task_ready, holdfast_limit_opens
-- returns: due_at opens_at server_at
SELECT min(due_at) AS due_at,
    (SELECT opens_at FROM holdfast_limit WHERE opens_at IS NOT NULL ORDER BY opens_at LIMIT 1) AS opens_at,
    NULL AS server_at
FROM (
    SELECT (SELECT due_at FROM holdfast_task
            WHERE queue = q.value AND priority = p.value AND status = 'queued' AND gate IS NULL
            ORDER BY due_at LIMIT 1) AS due_at
    FROM json_each(:queues) q, json_each('[0,1,2,3]') p);

-- name: paused_queue
-- index: holdfast_queue (primary key)
-- returns: paused_at
SELECT paused_at FROM holdfast_queue WHERE name = :name AND paused_at IS NOT NULL;

-- name: deadlines
-- What ends first by itself: deadlines for progress, reservations for nodes, decisions, interventions.
-- Preferences, one row for each node, end when the node is late: the caller reads the time from the node. A task that
-- an older version completed may still have a reservation.
-- index: holdfast_task_progress, holdfast_task_assigned, holdfast_task_gate, holdfast_decision_deadline, holdfast_intervention_due
-- returns: what id at
SELECT * FROM (SELECT 'stall' AS what, id, progress_due_at AS at FROM holdfast_task
    WHERE status = 'running' AND progress_due_at IS NOT NULL ORDER BY progress_due_at LIMIT :limit)
UNION ALL
SELECT * FROM (SELECT 'unassign', id, assigned_until FROM holdfast_task
    WHERE assigned_until IS NOT NULL AND status NOT IN ('completed', 'aborted') ORDER BY assigned_until LIMIT :limit)
UNION ALL
SELECT * FROM (SELECT 'preference', substr(gate, 10), 0.0 FROM holdfast_task
    WHERE status = 'queued' AND gate >= '!prefers:' AND gate < '!prefers;' GROUP BY gate)
UNION ALL
SELECT * FROM (SELECT 'decision', id, deadline_at FROM holdfast_decision
    WHERE state = 'open' AND deadline_at IS NOT NULL ORDER BY deadline_at LIMIT :limit)
UNION ALL
SELECT * FROM (SELECT 'intervention', id, due_at FROM holdfast_intervention
    WHERE state IN ('issued', 'delivered') ORDER BY due_at LIMIT :limit);

-- name: next_upkeep
-- What a sweeper waits for: when the first lease ends, when the first deadline ends, and whether something was left to
-- go on with (`unlinked_edges`, `cascades`) or has to be looked at each time (the preferences of `deadlines`).
-- index: holdfast_task_lease, holdfast_task_progress, holdfast_task_assigned, holdfast_task_gate, holdfast_decision_deadline, holdfast_intervention_due, holdfast_edge_unlinked, holdfast_cascade (primary key), holdfast_cascade_held (primary key)
-- returns: lease_at change_at is_left
SELECT (SELECT min(lease_until) FROM holdfast_task WHERE status IN ('running', 'stuck')) AS lease_at,
    (SELECT min(at) FROM (
        SELECT min(progress_due_at) AS at FROM holdfast_task WHERE status = 'running' AND progress_due_at IS NOT NULL
        UNION ALL SELECT min(assigned_until) FROM holdfast_task
            WHERE assigned_until IS NOT NULL AND status NOT IN ('completed', 'aborted')
        UNION ALL SELECT min(deadline_at) FROM holdfast_decision WHERE state = 'open' AND deadline_at IS NOT NULL
        UNION ALL SELECT min(due_at) FROM holdfast_intervention WHERE state IN ('issued', 'delivered'))) AS change_at,
    EXISTS (SELECT 1 FROM holdfast_edge WHERE unlinked = 1)
    OR EXISTS (SELECT 1 FROM holdfast_cascade) OR EXISTS (SELECT 1 FROM holdfast_cascade_held)
    OR EXISTS (SELECT 1 FROM holdfast_task
               WHERE status = 'queued' AND gate >= '!prefers:' AND gate < '!prefers;') AS is_left;
