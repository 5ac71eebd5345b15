-- Messages of workers: receivers, refusals, checkpoints.

-- name: lock_receivers
-- With the latest registration of each node: it fences older incarnations before the new one has said hello. The
-- rows of the nodes are locked too: no registration and no change of a state (`lock_node`) comes between this and the
-- commit. FOR KEY SHARE lets claims and renewals of the nodes through (`hear_node`).
-- index: holdfast_receiver_pkey, holdfast_node_pkey
-- returns: node incarnation applied_through boot_id registered state
WITH n AS MATERIALIZED (
    SELECT id, incarnation, state FROM holdfast_node
    WHERE id = ANY(:nodes::text[]) AND registered_at IS NOT NULL ORDER BY id FOR KEY SHARE
)
SELECT r.node, r.incarnation, r.applied_through, r.boot_id, n.incarnation AS registered, n.state
FROM holdfast_receiver r LEFT JOIN n ON n.id = r.node
WHERE r.node = ANY(:nodes::text[]) ORDER BY r.node FOR UPDATE OF r;

-- name: write_receivers
-- index: holdfast_receiver_pkey
UPDATE holdfast_receiver AS t SET incarnation = r.incarnation, applied_through = r.applied_through, at = :now::float8
FROM {rows: node text, incarnation bigint, applied_through bigint}
WHERE t.node = r.node AND t.incarnation <= r.incarnation;

-- name: put_receiver
-- A newer incarnation replaces the row.
-- index: holdfast_receiver_pkey
-- returns: node
INSERT INTO holdfast_receiver (node, incarnation, applied_through, boot_id, at)
VALUES (:node::text, :incarnation::bigint, 0, :boot_id::text, :now::float8)
ON CONFLICT (node) DO UPDATE SET incarnation = excluded.incarnation, applied_through = 0,
    boot_id = excluded.boot_id, at = excluded.at
WHERE holdfast_receiver.incarnation < excluded.incarnation
RETURNING node;

-- name: put_refused_messages
-- index: holdfast_refused_message_pkey
INSERT INTO holdfast_refused_message (node, incarnation, sequence, refused_json)
SELECT r.node, r.incarnation, r.sequence, r.refused_json
FROM {rows: node text, incarnation bigint, sequence bigint, refused_json text};

-- name: drop_refused_messages
-- Removes those that the worker has had an answer to.
-- index: holdfast_refused_message_pkey
DELETE FROM holdfast_refused_message AS t USING {rows: node text, incarnation bigint, through bigint}
WHERE t.node = r.node AND (t.incarnation < r.incarnation OR t.sequence <= r.through);

-- name: refused_messages
-- index: holdfast_refused_message_pkey
-- returns: node incarnation sequence refused_json
SELECT t.node, t.incarnation, t.sequence, t.refused_json
FROM {rows: node text, incarnation bigint, sequence bigint}
JOIN holdfast_refused_message t ON t.node = r.node AND t.incarnation = r.incarnation AND t.sequence = r.sequence;

-- name: checkpoint_numbers
-- The last number of each task; no row without checkpoints.
-- index: holdfast_checkpoint_task
-- returns: task_id nth
SELECT task_id, max(nth) AS nth FROM holdfast_checkpoint
WHERE task_id = ANY(:ids::text[]) GROUP BY task_id;

-- name: existing_checkpoints
-- index: holdfast_checkpoint_pkey
-- returns: id task_id
SELECT id, task_id FROM holdfast_checkpoint WHERE id = ANY(:ids::text[]);

-- name: insert_checkpoints
-- index: holdfast_checkpoint_pkey
INSERT INTO holdfast_checkpoint (id, task_id, fence, attempt, nth, type, note, data_json, created_at)
SELECT r.id, r.task_id, r.fence, r.attempt, r.nth, r.type, r.note, r.data_json, :now::float8
FROM {rows: id text, task_id text, fence bigint, attempt integer, nth bigint, type text, note text,
    data_json text};

-- name: drop_checkpoints
-- Removes the oldest checkpoints of tasks that have more than are kept.
-- index: holdfast_checkpoint_task
DELETE FROM holdfast_checkpoint WHERE (task_id, nth) IN (
    SELECT t.task_id, t.nth FROM {rows: task_id text, through bigint}
    JOIN holdfast_checkpoint t ON t.task_id = r.task_id AND t.nth <= r.through);

-- name: task_checkpoints
-- index: holdfast_checkpoint_task
-- returns: id fence attempt nth type note data_json created_at
SELECT id, fence, attempt, nth, type, note, data_json, created_at FROM holdfast_checkpoint
WHERE task_id = :task_id::text ORDER BY nth;

-- name: claimed_under
-- The runs of a node that a named claim took.
-- index: holdfast_task_claim
-- returns: task
SELECT {task} FROM holdfast_task
WHERE status IN ('running', 'stuck') AND node = :node::text AND claim_id = :claim_id::text ORDER BY priority, due_at, id;

-- name: latest_output
-- The latest run that has output in a stream, and where it ends.
-- index: holdfast_output_pkey
-- returns: fence ends
SELECT fence, start + size AS ends FROM holdfast_output
WHERE task_id = :task_id::text AND stream = :stream::text ORDER BY fence DESC, stream DESC, start DESC LIMIT 1;

-- name: ended_runs
-- Runs that are over. A run with a command for its worker is not called taken: the command says it.
-- index: holdfast_task_pkey, holdfast_intervention_task
-- returns: task_id fence is_taken
SELECT r.task_id, r.fence, t.fence <> r.fence AND NOT EXISTS (
    SELECT 1 FROM holdfast_intervention i
    WHERE i.task_id = r.task_id AND i.target_fence = r.fence AND i.state IN ('issued', 'delivered')) AS is_taken
FROM {rows: task_id text, fence bigint} JOIN holdfast_task t ON t.id = r.task_id
WHERE t.fence <> r.fence OR t.status NOT IN ('running', 'stuck');
