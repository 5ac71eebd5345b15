-- Decisions of people that tasks wait for, and the checkpoints with which they asked.

-- name: put_decision
-- Adds a decision, or writes the next version of one. No row: another transaction was first.
-- index: holdfast_decision_pkey, holdfast_decision_key
-- returns: id
INSERT INTO holdfast_decision (id, project, task_id, key, question, options_json, schema_json, default_json, assignees_json, deadline_at, state,
    choice_json, data_json, decided_by, reason, decided_at, version, fence, created_at, node)
VALUES (:id::text, :project::text, :task_id::text, :key::text, :question::text, :options_json::text, :schema_json::text, :default_json::text, :assignees_json::text, :deadline_at::float8, :state::text, :choice_json::text, :data_json::text, :decided_by::text, :reason::text, :decided_at::float8, :version::bigint, :fence::bigint, :created_at::float8, :node::text)
ON CONFLICT (id) DO UPDATE SET
    default_json = excluded.default_json,
    assignees_json = excluded.assignees_json,
    deadline_at = excluded.deadline_at,
    state = excluded.state,
    choice_json = excluded.choice_json,
    data_json = excluded.data_json,
    decided_by = excluded.decided_by,
    reason = excluded.reason,
    decided_at = excluded.decided_at,
    version = excluded.version,
    fence = excluded.fence,
    created_at = excluded.created_at,
    node = excluded.node
WHERE holdfast_decision.version = excluded.version - 1
RETURNING id;

-- name: get_decision
-- index: holdfast_decision_pkey
-- returns: id project task_id key question options_json schema_json default_json assignees_json deadline_at state choice_json data_json decided_by reason decided_at version fence created_at node
SELECT id, project, task_id, key, question, options_json, schema_json, default_json, assignees_json, deadline_at, state,
    choice_json, data_json, decided_by, reason, decided_at, version, fence, created_at, node
FROM holdfast_decision WHERE id = :id::text;

-- name: lock_decisions
-- index: holdfast_decision_pkey
-- returns: id project task_id key question options_json schema_json default_json assignees_json deadline_at state choice_json data_json decided_by reason decided_at version fence created_at node
SELECT id, project, task_id, key, question, options_json, schema_json, default_json, assignees_json, deadline_at, state,
    choice_json, data_json, decided_by, reason, decided_at, version, fence, created_at, node
FROM holdfast_decision WHERE id = ANY(:ids::text[]) ORDER BY id FOR UPDATE;

-- name: lock_decision_of
-- index: holdfast_decision_key
-- returns: id project task_id key question options_json schema_json default_json assignees_json deadline_at state choice_json data_json decided_by reason decided_at version fence created_at node
SELECT id, project, task_id, key, question, options_json, schema_json, default_json, assignees_json, deadline_at, state,
    choice_json, data_json, decided_by, reason, decided_at, version, fence, created_at, node
FROM holdfast_decision WHERE task_id = :task_id::text AND key = :key::text FOR UPDATE;

-- name: decisions_of
-- index: holdfast_decision_key
-- returns: id project task_id key question options_json schema_json default_json assignees_json deadline_at state choice_json data_json decided_by reason decided_at version fence created_at node
SELECT id, project, task_id, key, question, options_json, schema_json, default_json, assignees_json, deadline_at, state,
    choice_json, data_json, decided_by, reason, decided_at, version, fence, created_at, node
FROM holdfast_decision WHERE task_id = ANY(:ids::text[]) ORDER BY id;

-- name: answers_for_node
-- Questions of a node that have ended since a time and whose tasks were not claimed since.
-- index: holdfast_decision_node, holdfast_task_pkey
-- returns: id project task_id key question options_json schema_json default_json assignees_json deadline_at state choice_json data_json decided_by reason decided_at version fence created_at node
SELECT d.id, d.project, d.task_id, d.key, d.question, d.options_json, d.schema_json, d.default_json, d.assignees_json, d.deadline_at, d.state,
    d.choice_json, d.data_json, d.decided_by, d.reason, d.decided_at, d.version, d.fence, d.created_at, d.node
FROM holdfast_decision d JOIN holdfast_task t ON t.id = d.task_id
WHERE d.node = :node::text AND d.decided_at >= :since::float8 AND d.state IN ('decided', 'expired')
  AND t.status = 'queued' AND t.fence = d.fence + 1
ORDER BY d.decided_at, d.id LIMIT :limit::bigint;

-- name: open_decisions
-- The latest first. `assignees`: those that a person may answer, by one of these names.
-- index: holdfast_decision_open
-- returns: id project task_id key question options_json schema_json default_json assignees_json deadline_at state choice_json data_json decided_by reason decided_at version fence created_at node
SELECT id, project, task_id, key, question, options_json, schema_json, default_json, assignees_json, deadline_at, state,
    choice_json, data_json, decided_by, reason, decided_at, version, fence, created_at, node
FROM holdfast_decision
WHERE state = 'open' AND (:node::text IS NULL OR node = :node::text) AND (:after::text IS NULL OR id < :after::text) AND (:projects::text[] IS NULL OR project = ANY(:projects::text[]))
  AND (:assignees::text[] IS NULL OR (assignees_json = '[]' OR EXISTS (SELECT FROM jsonb_array_elements_text(assignees_json::jsonb) a(name)
      WHERE a.name = ANY(:assignees::text[]))))
ORDER BY id DESC LIMIT :limit::int;

-- name: count_open_decisions
-- index: holdfast_decision_open
-- returns: n
SELECT count(*) AS n FROM holdfast_decision WHERE state = 'open';

-- name: find_decisions
-- As `open_decisions`, in any state.
-- index: holdfast_decision_pkey
-- returns: id project task_id key question options_json schema_json default_json assignees_json deadline_at state choice_json data_json decided_by reason decided_at version fence created_at node
SELECT id, project, task_id, key, question, options_json, schema_json, default_json, assignees_json, deadline_at, state,
    choice_json, data_json, decided_by, reason, decided_at, version, fence, created_at, node
FROM holdfast_decision
WHERE (:state::text IS NULL OR state = :state::text) AND (:node::text IS NULL OR node = :node::text) AND (:after::text IS NULL OR id < :after::text) AND (:projects::text[] IS NULL OR project = ANY(:projects::text[]))
  AND (:assignees::text[] IS NULL OR (assignees_json = '[]' OR EXISTS (SELECT FROM jsonb_array_elements_text(assignees_json::jsonb) a(name)
      WHERE a.name = ANY(:assignees::text[]))))
ORDER BY id DESC LIMIT :limit::int;

-- name: add_checkpoint
-- The last 20 of a task are kept.
-- index: holdfast_checkpoint_pkey, holdfast_checkpoint_task
-- returns: nth
INSERT INTO holdfast_checkpoint (id, task_id, fence, attempt, nth, type, note, data_json, created_at)
SELECT :id::text, :task_id::text, :fence::bigint, :attempt::int,
    coalesce((SELECT max(nth) FROM holdfast_checkpoint WHERE task_id = :task_id::text), 0) + 1,
    :type::text, :note::text, :data_json::text, :now::float8
ON CONFLICT (id) DO UPDATE SET data_json = excluded.data_json
RETURNING nth;

-- name: drop_old_checkpoints
-- index: holdfast_checkpoint_task
DELETE FROM holdfast_checkpoint WHERE task_id = :task_id::text AND nth <= :through::bigint;

-- name: get_checkpoint
-- index: holdfast_checkpoint_pkey
-- returns: type note data_json created_at
SELECT type, note, data_json, created_at FROM holdfast_checkpoint WHERE id = :id::text;
