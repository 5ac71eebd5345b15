-- Claims: select and lock the next tasks.

-- name: lock_queued
-- Locks candidates by id, except those that another claim has locked or taken. The test of the gate is written so that
-- it keeps the planner from the index of all ready tasks.
-- index: holdfast_task_pkey
-- returns: task
SELECT {task} FROM holdfast_task
WHERE id = ANY(:ids::text[]) AND status = 'queued' AND coalesce(gate, '') = ''
ORDER BY priority, due_at, nth FOR NO KEY UPDATE SKIP LOCKED;

-- name: pick_aged
-- Selects the longest-waiting tasks of all priorities lower than `below`, so that these do not starve.
-- index: holdfast_task_ready
-- returns: task
WITH lane AS MATERIALIZED (
    SELECT q.name, p.priority, (:floors::float8[])[(q.n - 1) * 4 + p.priority + 1] AS floor,
        (:floor_nths::int[])[(q.n - 1) * 4 + p.priority + 1] AS floor_nth
    FROM unnest(:queues::text[]) WITH ORDINALITY q(name, n), generate_series(:below::int + 1, 3) p(priority)
    WHERE NOT EXISTS (SELECT FROM holdfast_queue h WHERE h.name = q.name AND h.paused_at IS NOT NULL)
)
SELECT {task:t} FROM lane CROSS JOIN LATERAL (
    SELECT * FROM holdfast_task
    WHERE queue = lane.name AND priority = lane.priority AND status = 'queued' AND gate IS NULL
      AND (due_at, nth) >= (lane.floor, lane.floor_nth) AND due_at <= :now::float8 - :ageing_seconds::float8 AND type = ANY(:types::text[])
      AND (:projects::text[] IS NULL OR project = ANY(:projects::text[]))
    ORDER BY due_at, nth LIMIT :limit::int FOR NO KEY UPDATE SKIP LOCKED) t
ORDER BY t.due_at, t.nth LIMIT :limit::int;

-- name: next_due
-- When the next delayed task is due, and when the next limit opens.
-- index: holdfast_task_ready, holdfast_limit_opens
-- returns: due_at opens_at
SELECT min(t.due_at) AS due_at,
    (SELECT opens_at FROM holdfast_limit WHERE opens_at IS NOT NULL ORDER BY opens_at LIMIT 1) AS opens_at
FROM unnest(:queues::text[]) q(name) CROSS JOIN generate_series(0, 3) p(priority)
CROSS JOIN LATERAL (
    SELECT due_at FROM holdfast_task
    WHERE queue = q.name AND priority = p.priority AND status = 'queued' AND gate IS NULL AND due_at > :now::float8
    ORDER BY due_at LIMIT 1) t;

-- name: first_due
-- The earliest due time of all ready or delayed tasks, and when the next limit opens. The time of the server comes
-- along, so that an idle worker reads it without another statement.
-- index: holdfast_task_ready, holdfast_limit_opens
-- returns: due_at opens_at server_at
SELECT min(t.due_at) AS due_at,
    (SELECT opens_at FROM holdfast_limit WHERE opens_at IS NOT NULL ORDER BY opens_at LIMIT 1) AS opens_at,
    extract(epoch FROM clock_timestamp())::float8 AS server_at
FROM unnest(:queues::text[]) q(name) CROSS JOIN generate_series(0, 3) p(priority)
CROSS JOIN LATERAL (
    SELECT due_at FROM holdfast_task
    WHERE queue = q.name AND priority = p.priority AND status = 'queued' AND gate IS NULL
    ORDER BY due_at LIMIT 1) t;

-- name: paused_queue
-- index: holdfast_queue_pkey
-- returns: paused_at
SELECT paused_at FROM holdfast_queue WHERE name = :name::text AND paused_at IS NOT NULL;

-- name: deadlines
-- What ends first by itself: deadlines for progress, reservations for nodes, decisions, interventions.
-- Preferences, one row for each node, end when the node is late: the caller reads the time from the node. A task that
-- an older version completed may still have a reservation.
-- index: holdfast_task_progress, holdfast_task_assigned, holdfast_decision_deadline, holdfast_intervention_due
-- returns: what id at
SELECT * FROM (SELECT 'stall' AS what, id, progress_due_at AS at FROM holdfast_task
    WHERE status = 'running' AND progress_due_at IS NOT NULL ORDER BY progress_due_at LIMIT :limit::int) s
UNION ALL
SELECT * FROM (SELECT 'unassign', id, assigned_until FROM holdfast_task
    WHERE assigned_until IS NOT NULL AND status NOT IN ('completed', 'aborted') ORDER BY assigned_until LIMIT :limit::int) u
UNION ALL
SELECT * FROM (SELECT 'preference', substr(gate, 10), 0.0::float8 FROM holdfast_task
    WHERE assigned_until IS NOT NULL AND status = 'queued' AND starts_with(gate, '!prefers:') GROUP BY gate) p
UNION ALL
SELECT * FROM (SELECT 'decision', id, deadline_at FROM holdfast_decision
    WHERE state = 'open' AND deadline_at IS NOT NULL ORDER BY deadline_at LIMIT :limit::int) d
UNION ALL
SELECT * FROM (SELECT 'intervention', id, due_at FROM holdfast_intervention
    WHERE state IN ('issued', 'delivered') ORDER BY due_at LIMIT :limit::int) i;

-- name: next_upkeep
-- What a sweeper waits for: when the first lease ends, when the first deadline ends, and whether something was left to
-- go on with (`unlinked_edges`, `cascades`) or has to be looked at each time (the preferences of `deadlines`).
-- index: holdfast_task_lease, holdfast_task_progress, holdfast_task_assigned, holdfast_decision_deadline, holdfast_intervention_due, holdfast_edge_unlinked, holdfast_cascade_pkey, holdfast_cascade_held_pkey
-- returns: lease_at change_at is_left
SELECT (SELECT lease_until FROM holdfast_task WHERE status IN ('running', 'stuck') AND lease_until >= :floor::float8
        ORDER BY lease_until LIMIT 1) AS lease_at,
    least((SELECT progress_due_at FROM holdfast_task WHERE status = 'running' AND progress_due_at IS NOT NULL
           ORDER BY progress_due_at LIMIT 1),
          (SELECT assigned_until FROM holdfast_task WHERE assigned_until IS NOT NULL
           AND status NOT IN ('completed', 'aborted') ORDER BY assigned_until LIMIT 1),
          (SELECT deadline_at FROM holdfast_decision WHERE state = 'open' AND deadline_at IS NOT NULL
           ORDER BY deadline_at LIMIT 1),
          (SELECT due_at FROM holdfast_intervention WHERE state IN ('issued', 'delivered')
           ORDER BY due_at LIMIT 1)) AS change_at,
    EXISTS (SELECT FROM holdfast_edge WHERE unlinked = 1)
    OR EXISTS (SELECT FROM holdfast_cascade) OR EXISTS (SELECT FROM holdfast_cascade_held)
    OR EXISTS (SELECT FROM holdfast_task
               WHERE assigned_until IS NOT NULL AND status = 'queued' AND starts_with(gate, '!prefers:')) AS is_left;
