-- The audit: a chain of rows, and its head.

-- name: lock_audit_head
-- index: holdfast_audit_head_pkey
-- returns: seq hash
SELECT seq, hash FROM holdfast_audit_head WHERE id = 1 FOR UPDATE;

-- name: append_audit
-- index: holdfast_audit_pkey
INSERT INTO holdfast_audit (seq, at, actor, operation, project, subject, reason, before_version, after_version,
    detail_json, request_id, prev_hash, hash)
SELECT seq, at, actor, operation, project, subject, reason, before_version, after_version,
    detail_json, request_id, prev_hash, hash
FROM {rows: seq bigint, at double precision, actor text, operation text, project text, subject text, reason text,
    before_version bigint, after_version bigint, detail_json text, request_id text, prev_hash text, hash text};

-- name: move_audit_head
-- index: holdfast_audit_head_pkey
UPDATE holdfast_audit_head SET seq = :seq::bigint, hash = :hash::text WHERE id = 1;

-- name: audit_head
-- index: holdfast_audit_head_pkey
-- returns: seq hash
SELECT seq, hash FROM holdfast_audit_head WHERE id = 1;

-- name: audit_after
-- Oldest first.
-- index: holdfast_audit_pkey
-- returns: seq at actor operation project subject reason before_version after_version detail_json request_id prev_hash hash
SELECT seq, at, actor, operation, project, subject, reason, before_version, after_version,
    detail_json, request_id, prev_hash, hash
FROM holdfast_audit WHERE seq > :seq::bigint ORDER BY seq LIMIT :limit::int;

-- name: audit_before
-- Latest first.
-- index: holdfast_audit_pkey
-- returns: seq at actor operation project subject reason before_version after_version detail_json request_id prev_hash hash
SELECT seq, at, actor, operation, project, subject, reason, before_version, after_version,
    detail_json, request_id, prev_hash, hash
FROM holdfast_audit WHERE seq < :seq::bigint ORDER BY seq DESC LIMIT :limit::int;

-- name: audit_start
-- The last row that was removed, or the empty head.
-- index: holdfast_audit_head_pkey
-- returns: seq hash
SELECT start_seq AS seq, start_hash AS hash FROM holdfast_audit_head WHERE id = 1;

-- name: old_audit
-- The oldest rows. Only a prefix of the chain is removed.
-- index: holdfast_audit_pkey
-- returns: seq at hash
SELECT seq, at, hash FROM holdfast_audit ORDER BY seq LIMIT :limit::int;

-- name: drop_audit
-- index: holdfast_audit_pkey
DELETE FROM holdfast_audit WHERE seq <= :seq::bigint;

-- name: move_audit_start
-- index: holdfast_audit_head_pkey
UPDATE holdfast_audit_head SET start_seq = :seq::bigint, start_hash = :hash::text WHERE id = 1;
