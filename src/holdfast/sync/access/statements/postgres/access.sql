-- Tokens and tickets. Only digests of secrets are stored.

-- name: add_token
-- index: holdfast_token_pkey
INSERT INTO holdfast_token (id, sha256, kind, name, principal, roles_json, projects_json, scopes_json, node_id,
    uses_left, created_by, created_at, expires_at, revoked_at)
VALUES (:id::text, :digest::text, :kind::text, :name::text, :principal::text, :roles_json::text, :projects_json::text, :scopes_json::text, :node_id::text,
    :uses_left::bigint, :created_by::text, :created_at::float8, :expires_at::float8, NULL);

-- name: add_holder
-- index: holdfast_secret_holder_pkey
INSERT INTO holdfast_secret_holder (principal, holder) VALUES (:principal::text, :holder::text)
ON CONFLICT (principal, holder) DO NOTHING;

-- name: holders_of
-- index: holdfast_secret_holder_pkey
-- returns: holder
SELECT DISTINCT holder FROM holdfast_secret_holder WHERE principal = ANY(:names::text[]);

-- name: token_by_digest
-- index: holdfast_token_sha256, holdfast_node_pkey
-- returns: id kind name principal roles_json projects_json scopes_json node_id uses_left created_by created_at expires_at revoked_at used_at node_state
SELECT id, kind, name, principal, roles_json, projects_json, scopes_json, node_id, uses_left, created_by, created_at,
    expires_at, revoked_at, (SELECT used_at FROM holdfast_token_use u WHERE u.token_id = t.id) AS used_at,
    (SELECT state FROM holdfast_node n WHERE n.id = t.node_id AND n.registered_at IS NOT NULL) AS node_state
FROM holdfast_token t WHERE sha256 = :digest::text;

-- name: valid_digests
-- Those of these tokens that count now. The node of one that is revoked has no credential.
-- index: holdfast_token_sha256, holdfast_node_pkey
-- returns: sha256
SELECT t.sha256 FROM holdfast_token t
LEFT JOIN holdfast_node n ON n.id = t.node_id AND n.registered_at IS NOT NULL
WHERE t.sha256 = ANY(:digests::text[]) AND t.revoked_at IS NULL AND (t.expires_at IS NULL OR t.expires_at > :now::float8)
  AND (n.state IS NULL OR n.state <> 'revoked');

-- name: lock_token
-- index: holdfast_token_pkey
-- returns: id kind name principal roles_json projects_json scopes_json node_id uses_left created_by created_at expires_at revoked_at used_at node_state
SELECT id, kind, name, principal, roles_json, projects_json, scopes_json, node_id, uses_left, created_by, created_at,
    expires_at, revoked_at, NULL::float8 AS used_at, NULL::text AS node_state
FROM holdfast_token t WHERE id = :id::text FOR UPDATE;

-- name: get_token
-- index: holdfast_token_pkey, holdfast_node_pkey
-- returns: id kind name principal roles_json projects_json scopes_json node_id uses_left created_by created_at expires_at revoked_at used_at node_state
SELECT id, kind, name, principal, roles_json, projects_json, scopes_json, node_id, uses_left, created_by, created_at,
    expires_at, revoked_at, (SELECT used_at FROM holdfast_token_use u WHERE u.token_id = t.id) AS used_at,
    (SELECT state FROM holdfast_node n WHERE n.id = t.node_id AND n.registered_at IS NOT NULL) AS node_state
FROM holdfast_token t WHERE id = :id::text;

-- name: tokens_after
-- By id, which rises with the time of creation.
-- index: holdfast_token_pkey, holdfast_node_pkey
-- returns: id kind name principal roles_json projects_json scopes_json node_id uses_left created_by created_at expires_at revoked_at used_at node_state
SELECT id, kind, name, principal, roles_json, projects_json, scopes_json, node_id, uses_left, created_by, created_at,
    expires_at, revoked_at, (SELECT used_at FROM holdfast_token_use u WHERE u.token_id = t.id) AS used_at,
    (SELECT state FROM holdfast_node n WHERE n.id = t.node_id AND n.registered_at IS NOT NULL) AS node_state
FROM holdfast_token t WHERE id > :after::text ORDER BY id LIMIT :limit::int;

-- name: revoke_token
-- index: holdfast_token_pkey
UPDATE holdfast_token SET revoked_at = :now::float8 WHERE id = :id::text AND revoked_at IS NULL;

-- name: rotate_token
-- index: holdfast_token_pkey
UPDATE holdfast_token SET sha256 = :digest::text, expires_at = :expires_at::float8 WHERE id = :id::text;

-- name: spend_token
-- Takes one use of a join token. No row: none is left, or the token does not count any more.
-- index: holdfast_token_sha256
-- returns: id kind name principal roles_json projects_json scopes_json node_id uses_left created_by created_at expires_at revoked_at used_at node_state
UPDATE holdfast_token SET uses_left = uses_left - 1
WHERE sha256 = :digest::text AND uses_left > 0 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > :now::float8)
RETURNING id, kind, name, principal, roles_json, projects_json, scopes_json, node_id, uses_left, created_by, created_at,
    expires_at, revoked_at, NULL::float8 AS used_at, NULL::text AS node_state;

-- name: note_token_use
-- index: holdfast_token_use_pkey
INSERT INTO holdfast_token_use (token_id, used_at) VALUES (:id::text, :now::float8)
ON CONFLICT (token_id) DO UPDATE SET used_at = greatest(holdfast_token_use.used_at, excluded.used_at);

-- name: add_ticket
-- index: holdfast_ticket_pkey
INSERT INTO holdfast_ticket (sha256, principal_json, expires_at) VALUES (:digest::text, :principal_json::text, :expires_at::float8);

-- name: take_ticket
-- One caller gets the row.
-- index: holdfast_ticket_pkey
-- returns: principal_json expires_at
DELETE FROM holdfast_ticket WHERE sha256 = :digest::text RETURNING principal_json, expires_at;

-- name: prune_tickets
-- index: holdfast_ticket_expiry
DELETE FROM holdfast_ticket WHERE expires_at < :now::float8;
