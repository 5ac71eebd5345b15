-- Decisions of people that tasks wait for, and the checkpoints with which they asked.

-- name: put_decision
-- Adds a decision, or writes the next version of one. No row: another transaction was first.
-- index: holdfast_decision (primary key), holdfast_decision_key
-- returns: id
INSERT INTO holdfast_decision (id, project, task_id, key, question, options_json, schema_json, default_json, assignees_json, deadline_at, state,
    choice_json, data_json, decided_by, reason, decided_at, version, fence, created_at, node)
VALUES (:id, :project, :task_id, :key, :question, :options_json, :schema_json, :default_json, :assignees_json, :deadline_at, :state, :choice_json, :data_json, :decided_by, :reason, :decided_at, :version, :fence, :created_at, :node)
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
-- index: holdfast_decision (primary key)
-- returns: id project task_id key question options_json schema_json default_json assignees_json deadline_at state choice_json data_json decided_by reason decided_at version fence created_at node
SELECT id, project, task_id, key, question, options_json, schema_json, default_json, assignees_json, deadline_at, state,
    choice_json, data_json, decided_by, reason, decided_at, version, fence, created_at, node
FROM holdfast_decision WHERE id = :id;

-- name: lock_decisions
-- index: holdfast_decision (primary key)
-- returns: id project task_id key question options_json schema_json default_json assignees_json deadline_at state choice_json data_json decided_by reason decided_at version fence created_at node
SELECT id, project, task_id, key, question, options_json, schema_json, default_json, assignees_json, deadline_at, state,
    choice_json, data_json, decided_by, reason, decided_at, version, fence, created_at, node
FROM holdfast_decision WHERE id IN (SELECT value FROM json_each(:ids)) ORDER BY id;

-- name: lock_decision_of
-- index: holdfast_decision_key
-- returns: id project task_id key question options_json schema_json default_json assignees_json deadline_at state choice_json data_json decided_by reason decided_at version fence created_at node
SELECT id, project, task_id, key, question, options_json, schema_json, default_json, assignees_json, deadline_at, state,
    choice_json, data_json, decided_by, reason, decided_at, version, fence, created_at, node
FROM holdfast_decision WHERE task_id = :task_id AND key = :key;

-- name: decisions_of
-- index: holdfast_decision_key
-- returns: id project task_id key question options_json schema_json default_json assignees_json deadline_at state choice_json data_json decided_by reason decided_at version fence created_at node
SELECT id, project, task_id, key, question, options_json, schema_json, default_json, assignees_json, deadline_at, state,
    choice_json, data_json, decided_by, reason, decided_at, version, fence, created_at, node
FROM holdfast_decision WHERE task_id IN (SELECT value FROM json_each(:ids)) ORDER BY id;

-- name: answers_for_node
-- Questions of a node that have ended since a time and whose tasks were not claimed since.
-- index: holdfast_decision_node, holdfast_task (primary key)
-- returns: id project task_id key question options_json schema_json default_json assignees_json deadline_at state choice_json data_json decided_by reason decided_at version fence created_at node
SELECT d.id, d.project, d.task_id, d.key, d.question, d.options_json, d.schema_json, d.default_json, d.assignees_json, d.deadline_at, d.state,
    d.choice_json, d.data_json, d.decided_by, d.reason, d.decided_at, d.version, d.fence, d.created_at, d.node
FROM holdfast_decision d JOIN holdfast_task t ON t.id = d.task_id
WHERE d.node = :node AND d.decided_at >= :since AND d.state IN ('decided', 'expired')
  AND t.status = 'queued' AND t.fence = d.fence + 1
ORDER BY d.decided_at, d.id LIMIT :limit;

-- name: open_decisions
-- The latest first. `assignees`: those that a person may answer, by one of these names.
-- index: holdfast_decision_open
-- returns: id project task_id key question options_json schema_json default_json assignees_json deadline_at state choice_json data_json decided_by reason decided_at version fence created_at node
SELECT id, project, task_id, key, question, options_json, schema_json, default_json, assignees_json, deadline_at, state,
    choice_json, data_json, decided_by, reason, decided_at, version, fence, created_at, node
FROM holdfast_decision
WHERE state = 'open' AND (:node IS NULL OR node = :node) AND (:after IS NULL OR id < :after) AND (:projects IS NULL OR project IN (SELECT value FROM json_each(:projects)))
  AND (:assignees IS NULL OR (assignees_json = '[]' OR EXISTS (SELECT 1 FROM json_each(assignees_json) a
      JOIN json_each(:assignees) m ON m.value = a.value)))
ORDER BY id DESC LIMIT :limit;

-- name: count_open_decisions
-- index: holdfast_decision_open
-- returns: n
SELECT count(*) AS n FROM holdfast_decision WHERE state = 'open';

-- name: find_decisions
-- As `open_decisions`, in any state.
-- index: holdfast_decision (primary key)
-- returns: id project task_id key question options_json schema_json default_json assignees_json deadline_at state choice_json data_json decided_by reason decided_at version fence created_at node
SELECT id, project, task_id, key, question, options_json, schema_json, default_json, assignees_json, deadline_at, state,
    choice_json, data_json, decided_by, reason, decided_at, version, fence, created_at, node
FROM holdfast_decision
WHERE (:state IS NULL OR state = :state) AND (:node IS NULL OR node = :node) AND (:after IS NULL OR id < :after) AND (:projects IS NULL OR project IN (SELECT value FROM json_each(:projects)))
  AND (:assignees IS NULL OR (assignees_json = '[]' OR EXISTS (SELECT 1 FROM json_each(assignees_json) a
      JOIN json_each(:assignees) m ON m.value = a.value)))
ORDER BY id DESC LIMIT :limit;

-- name: add_checkpoint
-- The last 20 of a task are kept.
-- index: holdfast_checkpoint (primary key), holdfast_checkpoint_task
-- returns: nth
INSERT INTO holdfast_checkpoint (id, task_id, fence, attempt, nth, type, note, data_json, created_at)
SELECT :id, :task_id, :fence, :attempt,
    coalesce((SELECT max(nth) FROM holdfast_checkpoint WHERE task_id = :task_id), 0) + 1,
    :type, :note, :data_json, :now
WHERE true
ON CONFLICT (id) DO UPDATE SET data_json = excluded.data_json
RETURNING nth;

-- name: drop_old_checkpoints
-- index: holdfast_checkpoint_task
DELETE FROM holdfast_checkpoint WHERE task_id = :task_id AND nth <= :through;

-- name: get_checkpoint
-- index: holdfast_checkpoint (primary key)
-- returns: type note data_json created_at
SELECT type, note, data_json, created_at FROM holdfast_checkpoint WHERE id = :id;

-- name: forget_decisions
-- index: holdfast_decision_key
DELETE FROM holdfast_decision WHERE task_id IN (SELECT value FROM json_each(:ids));

-- name: forget_checkpoints
-- index: holdfast_checkpoint_task
DELETE FROM holdfast_checkpoint WHERE task_id IN (SELECT value FROM json_each(:ids));
