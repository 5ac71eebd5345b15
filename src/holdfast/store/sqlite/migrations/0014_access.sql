-- Access: tokens, one-use tickets, and the audit of operators' acts.

-- Only the SHA-256 digest of a token is stored.
CREATE TABLE holdfast_token (
    id            text PRIMARY KEY,
    sha256        text NOT NULL,
    kind          text NOT NULL CHECK (kind IN ('user', 'node', 'agent', 'join')),
    name          text NOT NULL,
    principal     text NOT NULL,
    roles_json    text NOT NULL,
    projects_json text NOT NULL,
    -- NULL: all that the roles allow
    scopes_json   text,
    node_id       text,
    -- of a join token; NULL: any number
    uses_left     integer CHECK (uses_left >= 0),
    created_by    text NOT NULL,
    created_at    real NOT NULL,
    expires_at    real,
    revoked_at    real
) STRICT;
-- Authentication.
CREATE UNIQUE INDEX holdfast_token_sha256 ON holdfast_token (sha256);
-- The credentials of a node.
CREATE INDEX holdfast_token_node ON holdfast_token (node_id) WHERE node_id IS NOT NULL;

-- When a token was last used. Written at most once a minute, apart from the token.
CREATE TABLE holdfast_token_use (
    token_id text PRIMARY KEY,
    used_at  real NOT NULL
) STRICT;

-- A ticket opens one WebSocket: it is deleted when it is used.
CREATE TABLE holdfast_ticket (
    sha256         text PRIMARY KEY,
    principal_json text NOT NULL,
    expires_at     real NOT NULL
) STRICT;
CREATE INDEX holdfast_ticket_expiry ON holdfast_ticket (expires_at);

-- A chain: the hash of a row covers the row and the hash before it. Rows are never changed.
CREATE TABLE holdfast_audit (
    seq            integer PRIMARY KEY,
    at             real NOT NULL,
    actor          text NOT NULL,
    operation      text NOT NULL,
    project        text NOT NULL,
    subject        text NOT NULL,
    reason         text NOT NULL,
    before_version integer,
    after_version  integer,
    detail_json    text NOT NULL,
    request_id     text NOT NULL,
    prev_hash      text NOT NULL,
    hash           text NOT NULL
) STRICT;

-- The end of the chain, and the last row that was removed from its beginning: one row.
CREATE TABLE holdfast_audit_head (
    id         integer PRIMARY KEY CHECK (id = 1),
    seq        integer NOT NULL,
    hash       text NOT NULL,
    start_seq  integer NOT NULL,
    start_hash text NOT NULL
) STRICT;
INSERT INTO holdfast_audit_head (id, seq, hash, start_seq, start_hash)
VALUES (1, 0, '0000000000000000000000000000000000000000000000000000000000000000', 0, '0000000000000000000000000000000000000000000000000000000000000000');
