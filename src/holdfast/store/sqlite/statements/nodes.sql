-- Nodes and their heartbeats.

-- name: join_node
-- Registers a node that is new or was declared lost. Returns no row otherwise.
-- returns: id
-- index: holdfast_node (primary key)
INSERT INTO holdfast_node (id, started_at, seen_at, info_json) VALUES (:id, :now, :now, :info_json)
ON CONFLICT (id) DO UPDATE SET seen_at = :now, info_json = :info_json, lost_at = NULL WHERE lost_at IS NOT NULL
RETURNING id;

-- name: beat_node
-- Also the latest heartbeat of any node, and whether a task that is due waits at one of these gates.
-- returns: latest_at has_reserved
-- index: holdfast_node (primary key), holdfast_task_gate
UPDATE holdfast_node SET seen_at = :now, info_json = :info_json WHERE id = :id AND lost_at IS NULL
RETURNING (SELECT max(seen_at) FROM holdfast_node) AS latest_at,
    EXISTS (SELECT 1 FROM holdfast_task WHERE status = 'queued' AND gate IN (SELECT value FROM json_each(:gates))
            AND due_at <= :now) AS has_reserved;

-- name: latest_seen
-- The latest heartbeat, for a node that is not registered yet. Reads all nodes, which are few.
-- returns: latest_at
SELECT max(seen_at) AS latest_at FROM holdfast_node;

-- name: lose_nodes
-- Declares each node lost once, unless it sent a heartbeat since it was read.
-- returns: id seen_at
-- index: holdfast_node (primary key)
UPDATE holdfast_node AS n SET lost_at = :now
FROM {rows: id text, seen_at real}
WHERE n.id = r.id AND n.seen_at = r.seen_at AND n.lost_at IS NULL
RETURNING id, seen_at;

-- name: nodes
-- returns: id started_at seen_at info_json state
SELECT id, started_at, seen_at, info_json, state FROM holdfast_node ORDER BY id;

-- name: runner_nodes
-- Without the agents of hosts, of which there may be many.
-- index: holdfast_node_runner
-- returns: id started_at seen_at info_json state
SELECT id, started_at, seen_at, info_json, state FROM holdfast_node WHERE kind <> 'agent' ORDER BY id;

-- name: standing_nodes
-- Of these nodes, those that may claim.
-- returns: id seen_at info_json
-- index: holdfast_node (primary key)
SELECT id, seen_at, info_json FROM holdfast_node
WHERE id IN (SELECT value FROM json_each(:ids)) AND state = :state AND lost_at IS NULL;

-- name: forget_node
-- returns: id
-- index: holdfast_node (primary key)
DELETE FROM holdfast_node WHERE id = :id RETURNING id;

-- name: prune_nodes
-- Nodes with an identity are kept.
DELETE FROM holdfast_node WHERE registered_at IS NULL AND seen_at < :before;
