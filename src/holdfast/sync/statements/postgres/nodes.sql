-- Projects, and nodes with an identity.

-- name: add_project
-- index: holdfast_project_pkey
INSERT INTO holdfast_project (id, created_at) VALUES (:id::text, :now::float8) ON CONFLICT DO NOTHING;

-- name: get_project
-- index: holdfast_project_pkey
-- returns: id clock strategy settings_json version
SELECT id, clock, strategy, settings_json, version FROM holdfast_project WHERE id = :id::text;

-- name: lock_project
-- index: holdfast_project_pkey
-- returns: id clock strategy settings_json version
SELECT id, clock, strategy, settings_json, version FROM holdfast_project WHERE id = :id::text FOR NO KEY UPDATE;

-- name: projects
-- returns: id clock strategy settings_json created_at version
SELECT id, clock, strategy, settings_json, created_at, version FROM holdfast_project ORDER BY id;

-- name: set_strategy
-- index: holdfast_project_pkey
UPDATE holdfast_project SET strategy = :strategy::text, settings_json = :settings_json::text, version = version + 1 WHERE id = :id::text;

-- name: set_clock
-- index: holdfast_project_pkey
UPDATE holdfast_project SET clock = :clock::bigint WHERE id = :id::text;

-- name: lock_node
-- For a change of the state or the incarnation. FOR UPDATE waits for all requests of the node, also for those that
-- hold its row FOR KEY SHARE (`lock_receivers`).
-- index: holdfast_node_pkey
-- returns: id project kind state incarnation boots_json started_at registered_at seen_at lost_at capabilities_json labels_json token_id token_at clock position skew_ms
SELECT id, project, kind, state, incarnation, boots_json, started_at, registered_at, seen_at, lost_at,
    capabilities_json, labels_json, token_id, token_at, clock, position, skew_ms
FROM holdfast_node WHERE id = :id::text FOR UPDATE;

-- name: hear_node
-- For a request of the node. One at a time: the same claim at two gateways is one after the other. Messages of a
-- worker do not wait for its claims: they lock the row FOR KEY SHARE (`lock_receivers`).
-- index: holdfast_node_pkey
-- returns: id project kind state incarnation boots_json started_at registered_at seen_at lost_at capabilities_json labels_json token_id token_at clock position skew_ms
SELECT id, project, kind, state, incarnation, boots_json, started_at, registered_at, seen_at, lost_at,
    capabilities_json, labels_json, token_id, token_at, clock, position, skew_ms
FROM holdfast_node WHERE id = :id::text FOR NO KEY UPDATE;

-- name: get_node
-- index: holdfast_node_pkey
-- returns: id project kind state incarnation boots_json started_at registered_at seen_at lost_at capabilities_json labels_json token_id token_at clock position skew_ms
SELECT id, project, kind, state, incarnation, boots_json, started_at, registered_at, seen_at, lost_at,
    capabilities_json, labels_json, token_id, token_at, clock, position, skew_ms
FROM holdfast_node WHERE id = :id::text AND registered_at IS NOT NULL;

-- name: list_nodes
-- index: holdfast_node_project
-- returns: id project kind state incarnation boots_json started_at registered_at seen_at lost_at capabilities_json labels_json token_id token_at clock position skew_ms
SELECT id, project, kind, state, incarnation, boots_json, started_at, registered_at, seen_at, lost_at,
    capabilities_json, labels_json, token_id, token_at, clock, position, skew_ms
FROM holdfast_node
WHERE project = :project::text AND registered_at IS NOT NULL AND id > :after::text AND (:state::text IS NULL OR state = :state::text)
ORDER BY id LIMIT :limit::bigint;

-- name: registered_nodes
-- index: holdfast_node_pkey
-- returns: id project kind state incarnation boots_json started_at registered_at seen_at lost_at capabilities_json labels_json token_id token_at clock position skew_ms
SELECT id, project, kind, state, incarnation, boots_json, started_at, registered_at, seen_at, lost_at,
    capabilities_json, labels_json, token_id, token_at, clock, position, skew_ms
FROM holdfast_node
WHERE registered_at IS NOT NULL AND id = ANY(:ids::text[]) ORDER BY id;

-- name: write_node
-- Registers a node, or writes its new incarnation.
-- No row: another transaction has written the node since it was read.
-- index: holdfast_node_pkey
-- returns: id
INSERT INTO holdfast_node (id, project, kind, state, incarnation, boots_json, started_at, registered_at, seen_at,
    info_json, capabilities_json, labels_json, token_id, token_at, skew_ms)
VALUES (:id::text, :project::text, :kind::text, :state::text, :incarnation::bigint, :boots_json::text, :started_at::float8, :now::float8, :now::float8, :info_json::text,
    :capabilities_json::text, :labels_json::text, :token_id::text, :token_at::float8, :skew_ms::bigint)
ON CONFLICT (id) DO UPDATE SET state = :state::text, incarnation = :incarnation::bigint, boots_json = :boots_json::text,
    started_at = :started_at::float8, seen_at = :now::float8, info_json = :info_json::text, capabilities_json = :capabilities_json::text,
    labels_json = :labels_json::text, token_id = :token_id::text, token_at = :token_at::float8, lost_at = NULL,
    skew_ms = coalesce(:skew_ms::bigint, holdfast_node.skew_ms), kind = :kind::text
WHERE holdfast_node.incarnation = :before::bigint
RETURNING id;

-- name: end_tokens
-- The credentials before a rotation are accepted for a while.
-- index: holdfast_token_node
UPDATE holdfast_token SET expires_at = :until::float8
WHERE node_id = :node::text AND kind IN ('node', 'agent') AND (expires_at IS NULL OR expires_at > :until::float8);

-- name: revoke_tokens
-- index: holdfast_token_node
UPDATE holdfast_token SET revoked_at = :now::float8 WHERE node_id = :node::text AND kind IN ('node', 'agent') AND revoked_at IS NULL;

-- name: credential_uses
-- What made each credential of a node, and when it was used.
-- index: holdfast_token_node, holdfast_token_use_pkey
-- returns: created_by used_at
SELECT t.created_by, u.used_at FROM holdfast_token t LEFT JOIN holdfast_token_use u ON u.token_id = t.id
WHERE t.node_id = :node::text AND t.kind IN ('node', 'agent');

-- name: spend_join_token
-- Takes one use of a join token. No row: none is left, or the token does not count any more.
-- index: holdfast_token_pkey
-- returns: id
UPDATE holdfast_token SET uses_left = uses_left - 1
WHERE id = :id::text AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > :now::float8)
  AND (uses_left IS NULL OR uses_left > 0)
RETURNING id;

-- name: set_node_state
-- index: holdfast_node_pkey
UPDATE holdfast_node SET state = :state::text, boots_json = :boots_json::text, incarnation = :incarnation::bigint, token_id = :token_id::text
WHERE id = :id::text;

-- name: see_node
-- The heartbeat of a registered node.
-- index: holdfast_node_pkey
UPDATE holdfast_node SET seen_at = greatest(seen_at, :now::float8), lost_at = NULL, clock = greatest(clock, :clock::bigint),
    position = coalesce(:position::text, position), info_json = :info_json::text,
    skew_ms = coalesce(:skew_ms::bigint, skew_ms)
WHERE id = :id::text;

-- name: note_node
-- A request of a registered node, which shows that it lives.
-- index: holdfast_node_pkey
UPDATE holdfast_node SET seen_at = greatest(seen_at, :now::double precision), lost_at = NULL WHERE id = :id::text;

-- name: set_node_clock
-- index: holdfast_node_pkey
UPDATE holdfast_node SET clock = greatest(clock, :clock::bigint) WHERE id = :id::text;

-- name: held_by_node
-- The tasks that run on a node.
-- index: holdfast_task_lease
-- returns: task
SELECT {task} FROM holdfast_task WHERE status IN ('running', 'stuck') AND node = :node::text ORDER BY id;

-- name: running_by_node
-- index: holdfast_task_lease
-- returns: node n
SELECT node, count(*) AS n FROM holdfast_task
WHERE status IN ('running', 'stuck') AND node = ANY(:nodes::text[]) GROUP BY node;

-- name: count_nodes
-- The nodes of a project by state and liveness, and how far the one that is furthest behind has read.
-- index: holdfast_node_project
-- returns: state is_lost is_silent n read_to
SELECT state, lost_at IS NOT NULL AS is_lost, seen_at < :since::float8 AS is_silent, count(*) AS n,
    min(split_part(position, ':', 2)::bigint) FILTER (WHERE split_part(position, ':', 1) = :epoch::text) AS read_to
FROM holdfast_node WHERE project = :project::text AND registered_at IS NOT NULL GROUP BY 1, 2, 3;

-- name: live_positions
-- How far the live nodes of all projects have read. There are few nodes.
-- returns: kind read_to
SELECT kind, split_part(position, ':', 2)::bigint AS read_to
FROM holdfast_node WHERE registered_at IS NOT NULL AND lost_at IS NULL AND seen_at >= :since::float8
  AND split_part(position, ':', 1) = :epoch::text
LIMIT :limit::bigint;

-- name: unread_since
-- When the first event after an offset was written.
-- index: holdfast_feed_offset
-- returns: nth at
SELECT r.nth, (SELECT f.at FROM holdfast_feed f WHERE f.first_offset <= r.read_to + 1
               ORDER BY f.first_offset DESC LIMIT 1) AS at
FROM {rows: nth bigint, read_to bigint} ORDER BY r.nth;
