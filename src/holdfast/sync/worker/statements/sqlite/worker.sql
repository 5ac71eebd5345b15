-- Messages of workers: receivers, refusals, checkpoints.

-- name: lock_receivers
-- With the latest registration of each node: it fences older incarnations before the new one has said hello.
-- index: holdfast_receiver (primary key), holdfast_node (primary key)
-- returns: node incarnation applied_through boot_id registered state
SELECT r.node, r.incarnation, r.applied_through, r.boot_id, n.incarnation AS registered, n.state
FROM holdfast_receiver r LEFT JOIN holdfast_node n ON n.id = r.node AND n.registered_at IS NOT NULL
WHERE r.node IN (SELECT value FROM json_each(:nodes)) ORDER BY r.node;

-- name: write_receivers
-- index: holdfast_receiver (primary key)
UPDATE holdfast_receiver AS t SET incarnation = r.incarnation, applied_through = r.applied_through, at = :now
FROM {rows: node text, incarnation integer, applied_through integer}
WHERE t.node = r.node AND t.incarnation <= r.incarnation;

-- name: put_receiver
-- A newer incarnation replaces the row.
-- index: holdfast_receiver (primary key)
-- returns: node
INSERT INTO holdfast_receiver (node, incarnation, applied_through, boot_id, at)
VALUES (:node, :incarnation, 0, :boot_id, :now)
ON CONFLICT (node) DO UPDATE SET incarnation = excluded.incarnation, applied_through = 0,
    boot_id = excluded.boot_id, at = excluded.at
WHERE holdfast_receiver.incarnation < excluded.incarnation
RETURNING node;

-- name: put_refused_messages
-- index: holdfast_refused_message (primary key)
INSERT INTO holdfast_refused_message (node, incarnation, sequence, refused_json)
SELECT r.node, r.incarnation, r.sequence, r.refused_json
FROM {rows: node text, incarnation integer, sequence integer, refused_json text};

-- name: drop_refused_messages
-- Removes those that the worker has had an answer to.
-- index: holdfast_refused_message (primary key)
DELETE FROM holdfast_refused_message WHERE (node, incarnation, sequence) IN (
    SELECT t.node, t.incarnation, t.sequence FROM {rows: node text, incarnation integer, through integer}
    JOIN holdfast_refused_message t
        ON t.node = r.node AND (t.incarnation < r.incarnation OR t.sequence <= r.through));

-- name: refused_messages
-- index: holdfast_refused_message (primary key)
-- returns: node incarnation sequence refused_json
SELECT t.node, t.incarnation, t.sequence, t.refused_json
FROM {rows: node text, incarnation integer, sequence integer}
JOIN holdfast_refused_message t ON t.node = r.node AND t.incarnation = r.incarnation AND t.sequence = r.sequence;

-- name: checkpoint_numbers
-- The last number of each task; no row without checkpoints.
-- index: holdfast_checkpoint_task
-- returns: task_id nth
SELECT task_id, max(nth) AS nth FROM holdfast_checkpoint
WHERE task_id IN (SELECT value FROM json_each(:ids)) GROUP BY task_id;

-- name: existing_checkpoints
-- index: holdfast_checkpoint (primary key)
-- returns: id task_id
SELECT id, task_id FROM holdfast_checkpoint WHERE id IN (SELECT value FROM json_each(:ids));

-- name: insert_checkpoints
-- index: holdfast_checkpoint (primary key)
INSERT INTO holdfast_checkpoint (id, task_id, fence, attempt, nth, type, note, data_json, created_at)
SELECT r.id, r.task_id, r.fence, r.attempt, r.nth, r.type, r.note, r.data_json, :now
FROM {rows: id text, task_id text, fence integer, attempt integer, nth integer, type text, note text,
    data_json text} WHERE true;

-- name: drop_checkpoints
-- Removes the oldest checkpoints of tasks that have more than are kept.
-- index: holdfast_checkpoint_task
DELETE FROM holdfast_checkpoint WHERE (task_id, nth) IN (
    SELECT t.task_id, t.nth FROM {rows: task_id text, through integer}
    JOIN holdfast_checkpoint t ON t.task_id = r.task_id AND t.nth <= r.through);

-- name: task_checkpoints
-- index: holdfast_checkpoint_task
-- returns: id fence attempt nth type note data_json created_at
SELECT id, fence, attempt, nth, type, note, data_json, created_at FROM holdfast_checkpoint
WHERE task_id = :task_id ORDER BY nth;

-- name: claimed_under
-- The runs of a node that a named claim took.
-- index: holdfast_task_claim
-- returns: task
SELECT {task} FROM holdfast_task
WHERE status IN ('running', 'stuck') AND node = :node AND claim_id = :claim_id ORDER BY priority, due_at, id;

-- name: latest_output
-- The latest run that has output in a stream, and where it ends.
-- index: holdfast_output (primary key)
-- returns: fence ends
SELECT fence, start + size AS ends FROM holdfast_output
WHERE task_id = :task_id AND stream = :stream ORDER BY fence DESC, stream DESC, start DESC LIMIT 1;

-- name: ended_runs
-- Runs that are over. A run with a command for its worker is not called taken: the command says it.
-- index: holdfast_task (primary key), holdfast_intervention_task
-- returns: task_id fence is_taken
SELECT r.task_id, r.fence, t.fence <> r.fence AND NOT EXISTS (
    SELECT 1 FROM holdfast_intervention i
    WHERE i.task_id = r.task_id AND i.target_fence = r.fence AND i.state IN ('issued', 'delivered')) AS is_taken
FROM {rows: task_id text, fence integer} JOIN holdfast_task t ON t.id = r.task_id
WHERE t.fence <> r.fence OR t.status NOT IN ('running', 'stuck');
