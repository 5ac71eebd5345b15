-- Nodes and their heartbeats.

-- name: join_node
-- Registers a node that is new or was declared lost. Returns no row otherwise.
-- returns: id
-- index: holdfast_node_pkey
INSERT INTO holdfast_node (id, started_at, seen_at, info_json) VALUES (:id::text, :now::float8, :now::float8, :info_json::text)
ON CONFLICT (id) DO UPDATE SET seen_at = :now::float8, info_json = :info_json::text, lost_at = NULL
    WHERE holdfast_node.lost_at IS NOT NULL
RETURNING id;

-- name: beat_node
-- Also the latest heartbeat of any node, and whether a task that is due waits at one of these gates.
-- returns: latest_at has_reserved
-- index: holdfast_node_pkey, holdfast_task_gate
UPDATE holdfast_node SET seen_at = :now::float8, info_json = :info_json::text
WHERE id = :id::text AND lost_at IS NULL
RETURNING (SELECT max(seen_at) FROM holdfast_node) AS latest_at,
    EXISTS (SELECT 1 FROM holdfast_task WHERE status = 'queued' AND gate = ANY(:gates::text[])
            AND due_at <= :now::float8) AS has_reserved;

-- name: latest_seen
-- The latest heartbeat, for a node that is not registered yet. Reads all nodes, which are few.
-- returns: latest_at
SELECT max(seen_at) AS latest_at FROM holdfast_node;

-- name: lose_nodes
-- Declares each node lost once, unless it sent a heartbeat since it was read.
-- returns: id seen_at
-- index: holdfast_node_pkey
UPDATE holdfast_node n SET lost_at = :now::float8
FROM {rows: id text, seen_at double precision}
WHERE n.id = r.id AND n.seen_at = r.seen_at AND n.lost_at IS NULL
RETURNING n.id, n.seen_at;

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
-- index: holdfast_node_pkey
SELECT id, seen_at, info_json FROM holdfast_node
WHERE id = ANY(:ids::text[]) AND state = :state::text AND lost_at IS NULL;

-- name: forget_node
-- returns: id
-- index: holdfast_node_pkey
DELETE FROM holdfast_node WHERE id = :id::text RETURNING id;

-- name: prune_nodes
-- Nodes with an identity are kept.
DELETE FROM holdfast_node WHERE registered_at IS NULL AND seen_at < :before::float8;
