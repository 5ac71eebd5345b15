-- Interventions of operators, and how far the runners have followed.

-- name: add_interventions
-- index: holdfast_intervention (primary key)
INSERT INTO holdfast_intervention (id, project, task_id, type, args_json, reason, actor, requested_by, target_node, target_fence, state, issued_at,
    delivered_at, ended_at, expires_at, lease_until, effect_json, detail, due_at)
SELECT r.id, r.project, r.task_id, r.type, r.args_json, r.reason, r.actor, r.requested_by, r.target_node, r.target_fence, r.state, r.issued_at,
    r.delivered_at, r.ended_at, r.expires_at, r.lease_until, r.effect_json, r.detail, r.due_at
FROM {rows: id text, project text, task_id text, type text, args_json text, reason text, actor text, requested_by text,
    target_node text, target_fence bigint, state text, issued_at double precision, delivered_at double precision,
    ended_at double precision, expires_at double precision, lease_until double precision, effect_json text, detail text,
    due_at double precision};

-- name: get_intervention
-- index: holdfast_intervention (primary key)
-- returns: id project task_id type args_json reason actor requested_by target_node target_fence state issued_at delivered_at ended_at expires_at lease_until effect_json detail
SELECT id, project, task_id, type, args_json, reason, actor, requested_by, target_node, target_fence, state, issued_at,
    delivered_at, ended_at, expires_at, lease_until, effect_json, detail
FROM holdfast_intervention WHERE id = :id;

-- name: lock_interventions
-- The rows whose runners have still to follow.
-- index: holdfast_intervention (primary key)
-- returns: id project task_id type args_json reason actor requested_by target_node target_fence state issued_at delivered_at ended_at expires_at lease_until effect_json detail
SELECT id, project, task_id, type, args_json, reason, actor, requested_by, target_node, target_fence, state, issued_at,
    delivered_at, ended_at, expires_at, lease_until, effect_json, detail
FROM holdfast_intervention WHERE id IN (SELECT value FROM json_each(:ids)) AND state IN ('issued', 'delivered') ORDER BY id;

-- name: move_interventions
-- index: holdfast_intervention (primary key)
UPDATE holdfast_intervention AS i SET
    state = r.state, delivered_at = r.delivered_at, ended_at = r.ended_at, detail = r.detail
FROM {rows: id text, state text, delivered_at real, ended_at real, detail text}
WHERE i.id = r.id;

-- name: interventions_of
-- The latest first.
-- index: holdfast_intervention_task
-- returns: id project task_id type args_json reason actor requested_by target_node target_fence state issued_at delivered_at ended_at expires_at lease_until effect_json detail
SELECT id, project, task_id, type, args_json, reason, actor, requested_by, target_node, target_fence, state, issued_at,
    delivered_at, ended_at, expires_at, lease_until, effect_json, detail
FROM holdfast_intervention WHERE task_id = :task_id AND (:after IS NULL OR id < :after)
ORDER BY id DESC LIMIT :limit;

-- name: pending_for_node
-- In the order of issue.
-- index: holdfast_intervention_node
-- returns: id task_id
SELECT id, task_id FROM holdfast_intervention
WHERE target_node = :node AND state IN ('issued', 'delivered') ORDER BY issued_at, id LIMIT :limit;

-- name: pending_for_runs
-- index: holdfast_intervention_task
-- returns: id task_id
SELECT i.id, i.task_id FROM {rows: task_id text, fence integer}
CROSS JOIN holdfast_intervention i ON i.task_id = r.task_id AND i.target_fence = r.fence
WHERE i.state IN ('issued', 'delivered') ORDER BY i.id;

-- name: tasks_of_interventions
-- index: holdfast_intervention (primary key)
-- returns: id task_id
SELECT id, task_id FROM holdfast_intervention WHERE id IN (SELECT value FROM json_each(:ids)) AND state IN ('issued', 'delivered');

-- name: node_standing
-- index: holdfast_node (primary key)
-- returns: project state is_registered info_json
SELECT project, state, registered_at IS NOT NULL AS is_registered, info_json FROM holdfast_node WHERE id = :id;

-- name: forget_interventions
-- index: holdfast_intervention_task
DELETE FROM holdfast_intervention WHERE task_id IN (SELECT value FROM json_each(:ids));
