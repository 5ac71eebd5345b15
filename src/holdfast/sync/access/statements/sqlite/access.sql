-- Tokens and tickets. Only digests of secrets are stored.

-- name: add_token
-- index: holdfast_token (primary key)
INSERT INTO holdfast_token (id, sha256, kind, name, principal, roles_json, projects_json, scopes_json, node_id,
    uses_left, created_by, created_at, expires_at, revoked_at)
VALUES (:id, :digest, :kind, :name, :principal, :roles_json, :projects_json, :scopes_json, :node_id,
    :uses_left, :created_by, :created_at, :expires_at, NULL);

-- name: add_holder
-- index: holdfast_secret_holder (primary key)
INSERT INTO holdfast_secret_holder (principal, holder) VALUES (:principal, :holder)
ON CONFLICT (principal, holder) DO NOTHING;

-- name: holders_of
-- index: holdfast_secret_holder (primary key)
-- returns: holder
SELECT DISTINCT holder FROM holdfast_secret_holder WHERE principal IN (SELECT value FROM json_each(:names));

-- name: token_by_digest
-- index: holdfast_token_sha256, holdfast_node (primary key)
-- returns: id kind name principal roles_json projects_json scopes_json node_id uses_left created_by created_at expires_at revoked_at used_at node_state
SELECT id, kind, name, principal, roles_json, projects_json, scopes_json, node_id, uses_left, created_by, created_at,
    expires_at, revoked_at, (SELECT used_at FROM holdfast_token_use u WHERE u.token_id = t.id) AS used_at,
    (SELECT state FROM holdfast_node n WHERE n.id = t.node_id AND n.registered_at IS NOT NULL) AS node_state
FROM holdfast_token t WHERE sha256 = :digest;

-- name: valid_digests
-- Those of these tokens that count now. The node of one that is revoked has no credential.
-- index: holdfast_token_sha256, holdfast_node (primary key)
-- returns: sha256
SELECT t.sha256 FROM holdfast_token t
LEFT JOIN holdfast_node n ON n.id = t.node_id AND n.registered_at IS NOT NULL
WHERE t.sha256 IN (SELECT value FROM json_each(:digests)) AND t.revoked_at IS NULL AND (t.expires_at IS NULL OR t.expires_at > :now)
  AND (n.state IS NULL OR n.state <> 'revoked');

-- name: lock_token
-- index: holdfast_token (primary key)
-- returns: id kind name principal roles_json projects_json scopes_json node_id uses_left created_by created_at expires_at revoked_at used_at node_state
SELECT id, kind, name, principal, roles_json, projects_json, scopes_json, node_id, uses_left, created_by, created_at,
    expires_at, revoked_at, NULL AS used_at, NULL AS node_state
FROM holdfast_token t WHERE id = :id;

-- name: get_token
-- index: holdfast_token (primary key), holdfast_node (primary key)
-- returns: id kind name principal roles_json projects_json scopes_json node_id uses_left created_by created_at expires_at revoked_at used_at node_state
SELECT id, kind, name, principal, roles_json, projects_json, scopes_json, node_id, uses_left, created_by, created_at,
    expires_at, revoked_at, (SELECT used_at FROM holdfast_token_use u WHERE u.token_id = t.id) AS used_at,
    (SELECT state FROM holdfast_node n WHERE n.id = t.node_id AND n.registered_at IS NOT NULL) AS node_state
FROM holdfast_token t WHERE id = :id;

-- name: tokens_after
-- By id, which rises with the time of creation.
-- index: holdfast_token (primary key), holdfast_node (primary key)
-- returns: id kind name principal roles_json projects_json scopes_json node_id uses_left created_by created_at expires_at revoked_at used_at node_state
SELECT id, kind, name, principal, roles_json, projects_json, scopes_json, node_id, uses_left, created_by, created_at,
    expires_at, revoked_at, (SELECT used_at FROM holdfast_token_use u WHERE u.token_id = t.id) AS used_at,
    (SELECT state FROM holdfast_node n WHERE n.id = t.node_id AND n.registered_at IS NOT NULL) AS node_state
FROM holdfast_token t WHERE id > :after ORDER BY id LIMIT :limit;

-- name: revoke_token
-- index: holdfast_token (primary key)
UPDATE holdfast_token SET revoked_at = :now WHERE id = :id AND revoked_at IS NULL;

-- name: rotate_token
-- index: holdfast_token (primary key)
UPDATE holdfast_token SET sha256 = :digest, expires_at = :expires_at WHERE id = :id;

-- name: spend_token
-- Takes one use of a join token. No row: none is left, or the token does not count any more.
-- index: holdfast_token_sha256
-- returns: id kind name principal roles_json projects_json scopes_json node_id uses_left created_by created_at expires_at revoked_at used_at node_state
UPDATE holdfast_token SET uses_left = uses_left - 1
WHERE sha256 = :digest AND uses_left > 0 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > :now)
RETURNING id, kind, name, principal, roles_json, projects_json, scopes_json, node_id, uses_left, created_by, created_at,
    expires_at, revoked_at, NULL AS used_at, NULL AS node_state;

-- name: note_token_use
-- index: holdfast_token_use (primary key)
INSERT INTO holdfast_token_use (token_id, used_at) VALUES (:id, :now)
ON CONFLICT (token_id) DO UPDATE SET used_at = max(holdfast_token_use.used_at, excluded.used_at);

-- name: add_ticket
-- index: holdfast_ticket (primary key)
INSERT INTO holdfast_ticket (sha256, principal_json, expires_at) VALUES (:digest, :principal_json, :expires_at);

-- name: take_ticket
-- One caller gets the row.
-- index: holdfast_ticket (primary key)
-- returns: principal_json expires_at
DELETE FROM holdfast_ticket WHERE sha256 = :digest RETURNING principal_json, expires_at;

-- name: prune_tickets
-- index: holdfast_ticket_expiry
DELETE FROM holdfast_ticket WHERE expires_at < :now;
