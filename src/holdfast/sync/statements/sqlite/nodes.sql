-- Projects, and nodes with an identity.

-- name: add_project
-- index: holdfast_project (primary key)
INSERT OR IGNORE INTO holdfast_project (id, created_at) VALUES (:id, :now);

-- name: get_project
-- index: holdfast_project (primary key)
-- returns: id clock strategy settings_json version
SELECT id, clock, strategy, settings_json, version FROM holdfast_project WHERE id = :id;

-- name: lock_project
-- index: holdfast_project (primary key)
-- returns: id clock strategy settings_json version
SELECT id, clock, strategy, settings_json, version FROM holdfast_project WHERE id = :id;

-- name: projects
-- returns: id clock strategy settings_json created_at version
SELECT id, clock, strategy, settings_json, created_at, version FROM holdfast_project ORDER BY id;

-- name: set_strategy
-- index: holdfast_project (primary key)
UPDATE holdfast_project SET strategy = :strategy, settings_json = :settings_json, version = version + 1 WHERE id = :id;

-- name: set_clock
-- index: holdfast_project (primary key)
UPDATE holdfast_project SET clock = :clock WHERE id = :id;

-- name: lock_node
-- For a change of the state or the incarnation.
-- index: holdfast_node (primary key)
-- returns: id project kind state incarnation boots_json started_at registered_at seen_at lost_at capabilities_json labels_json token_id token_at clock position skew_ms
SELECT id, project, kind, state, incarnation, boots_json, started_at, registered_at, seen_at, lost_at,
    capabilities_json, labels_json, token_id, token_at, clock, position, skew_ms
FROM holdfast_node WHERE id = :id;

-- name: hear_node
-- For a request of the node.
-- index: holdfast_node (primary key)
-- returns: id project kind state incarnation boots_json started_at registered_at seen_at lost_at capabilities_json labels_json token_id token_at clock position skew_ms
SELECT id, project, kind, state, incarnation, boots_json, started_at, registered_at, seen_at, lost_at,
    capabilities_json, labels_json, token_id, token_at, clock, position, skew_ms
FROM holdfast_node WHERE id = :id;

-- name: get_node
-- index: holdfast_node (primary key)
-- returns: id project kind state incarnation boots_json started_at registered_at seen_at lost_at capabilities_json labels_json token_id token_at clock position skew_ms
SELECT id, project, kind, state, incarnation, boots_json, started_at, registered_at, seen_at, lost_at,
    capabilities_json, labels_json, token_id, token_at, clock, position, skew_ms
FROM holdfast_node WHERE id = :id AND registered_at IS NOT NULL;

-- name: list_nodes
-- index: holdfast_node_project
-- returns: id project kind state incarnation boots_json started_at registered_at seen_at lost_at capabilities_json labels_json token_id token_at clock position skew_ms
SELECT id, project, kind, state, incarnation, boots_json, started_at, registered_at, seen_at, lost_at,
    capabilities_json, labels_json, token_id, token_at, clock, position, skew_ms
FROM holdfast_node
WHERE project = :project AND registered_at IS NOT NULL AND id > :after AND (:state IS NULL OR state = :state)
ORDER BY id LIMIT :limit;

-- name: registered_nodes
-- index: holdfast_node (primary key)
-- returns: id project kind state incarnation boots_json started_at registered_at seen_at lost_at capabilities_json labels_json token_id token_at clock position skew_ms
SELECT id, project, kind, state, incarnation, boots_json, started_at, registered_at, seen_at, lost_at,
    capabilities_json, labels_json, token_id, token_at, clock, position, skew_ms
FROM holdfast_node
WHERE registered_at IS NOT NULL AND id IN (SELECT value FROM json_each(:ids)) ORDER BY id;

-- name: write_node
-- Registers a node, or writes its new incarnation.
-- No row: another transaction has written the node since it was read.
-- index: holdfast_node (primary key)
-- returns: id
INSERT INTO holdfast_node (id, project, kind, state, incarnation, boots_json, started_at, registered_at, seen_at,
    info_json, capabilities_json, labels_json, token_id, token_at, skew_ms)
VALUES (:id, :project, :kind, :state, :incarnation, :boots_json, :started_at, :now, :now, :info_json,
    :capabilities_json, :labels_json, :token_id, :token_at, :skew_ms)
ON CONFLICT (id) DO UPDATE SET state = :state, incarnation = :incarnation, boots_json = :boots_json,
    started_at = :started_at, seen_at = :now, info_json = :info_json, capabilities_json = :capabilities_json,
    labels_json = :labels_json, token_id = :token_id, token_at = :token_at, lost_at = NULL,
    skew_ms = coalesce(:skew_ms, holdfast_node.skew_ms), kind = :kind
WHERE holdfast_node.incarnation = :before
RETURNING id;

-- name: end_tokens
-- The credentials before a rotation are accepted for a while.
-- index: holdfast_token_node
UPDATE holdfast_token SET expires_at = :until
WHERE node_id = :node AND kind IN ('node', 'agent') AND (expires_at IS NULL OR expires_at > :until);

-- name: revoke_tokens
-- index: holdfast_token_node
UPDATE holdfast_token SET revoked_at = :now WHERE node_id = :node AND kind IN ('node', 'agent') AND revoked_at IS NULL;

-- name: credential_uses
-- What made each credential of a node, and when it was used.
-- index: holdfast_token_node, holdfast_token_use (primary key)
-- returns: created_by used_at
SELECT t.created_by, u.used_at FROM holdfast_token t LEFT JOIN holdfast_token_use u ON u.token_id = t.id
WHERE t.node_id = :node AND t.kind IN ('node', 'agent');

-- name: spend_join_token
-- Takes one use of a join token. No row: none is left, or the token does not count any more.
-- index: holdfast_token (primary key)
-- returns: id
UPDATE holdfast_token SET uses_left = uses_left - 1
WHERE id = :id AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > :now)
  AND (uses_left IS NULL OR uses_left > 0)
RETURNING id;

-- name: set_node_state
-- index: holdfast_node (primary key)
UPDATE holdfast_node SET state = :state, boots_json = :boots_json, incarnation = :incarnation, token_id = :token_id
WHERE id = :id;

-- name: see_node
-- The heartbeat of a registered node.
-- index: holdfast_node (primary key)
UPDATE holdfast_node SET seen_at = max(seen_at, :now), lost_at = NULL, clock = max(clock, :clock),
    position = coalesce(:position, position), info_json = :info_json,
    skew_ms = coalesce(:skew_ms, skew_ms)
WHERE id = :id;

-- name: note_node
-- A request of a registered node, which shows that it lives.
-- index: holdfast_node (primary key)
UPDATE holdfast_node SET seen_at = max(seen_at, :now), lost_at = NULL WHERE id = :id;

-- name: set_node_clock
-- index: holdfast_node (primary key)
UPDATE holdfast_node SET clock = max(clock, :clock) WHERE id = :id;

-- name: held_by_node
-- The tasks that run on a node.
-- index: holdfast_task_lease
-- returns: task
SELECT {task} FROM holdfast_task WHERE status IN ('running', 'stuck') AND node = :node ORDER BY id;

-- name: running_by_node
-- index: holdfast_task_lease
-- returns: node n
SELECT node, count(*) AS n FROM holdfast_task
WHERE status IN ('running', 'stuck') AND node IN (SELECT value FROM json_each(:nodes)) GROUP BY node;

-- name: count_nodes
-- The nodes of a project by state and liveness, and how far the one that is furthest behind has read.
-- index: holdfast_node_project
-- returns: state is_lost is_silent n read_to
SELECT state, lost_at IS NOT NULL AS is_lost, seen_at < :since AS is_silent, count(*) AS n,
    min(CAST(substr(position, instr(position, ':') + 1) AS integer))
        FILTER (WHERE substr(position, 1, instr(position, ':') - 1) = :epoch) AS read_to
FROM holdfast_node WHERE project = :project AND registered_at IS NOT NULL GROUP BY 1, 2, 3;

-- name: live_positions
-- How far the live nodes of all projects have read. There are few nodes.
-- returns: kind read_to
SELECT kind, CAST(substr(position, instr(position, ':') + 1) AS integer) AS read_to
FROM holdfast_node WHERE registered_at IS NOT NULL AND lost_at IS NULL AND seen_at >= :since
  AND substr(position, 1, instr(position, ':') - 1) = :epoch
LIMIT :limit;

-- name: unread_since
-- When the first event after an offset was written.
-- index: holdfast_feed (primary key)
-- returns: nth at
SELECT r.nth, (SELECT f.at FROM holdfast_feed f WHERE f.first_offset <= r.read_to + 1
               ORDER BY f.first_offset DESC LIMIT 1) AS at
FROM {rows: nth integer, read_to integer} ORDER BY r.nth;
