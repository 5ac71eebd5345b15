-- The ledger of idempotent calls. The rules are in core/ledger.py.

-- name: begin_entry
-- Nothing is returned when the key is there already; the caller looks closer. Waits for a transaction that
-- is about to write the same key.
-- index: holdfast_ledger_pkey
-- returns: fence
INSERT INTO holdfast_ledger (scope, key, operation, fingerprint, state, fence, owner, attempt, begun_at,
    lease_until, expires_at)
VALUES (:scope::text, :key::text, :operation::text, :fingerprint::text, 'in-progress', :fence::bigint,
    :owner::text, 1, :now::float8, :lease_until::float8, :expires_at::float8)
ON CONFLICT (scope, key, operation) DO NOTHING
RETURNING fence;

-- name: lock_entry
-- index: holdfast_ledger_pkey
-- returns: scope operation key fingerprint state fence owner attempt begun_at lease_until ended_at outcome_json
SELECT scope, operation, key, fingerprint, state, fence, owner, attempt, begun_at, lease_until, ended_at,
    outcome_json
FROM holdfast_ledger WHERE scope = :scope::text AND key = :key::text AND operation = :operation::text
FOR UPDATE;

-- name: get_entry
-- index: holdfast_ledger_pkey
-- returns: scope operation key fingerprint state fence owner attempt begun_at lease_until ended_at outcome_json
SELECT scope, operation, key, fingerprint, state, fence, owner, attempt, begun_at, lease_until, ended_at,
    outcome_json
FROM holdfast_ledger WHERE scope = :scope::text AND key = :key::text AND operation = :operation::text;

-- name: retake_entry
-- Of an entry without an answer. The fence that was seen is the guard.
-- index: holdfast_ledger_pkey
-- returns: fence
UPDATE holdfast_ledger SET state = 'in-progress', fence = :fence::bigint, owner = :owner::text,
    attempt = :attempt::int, begun_at = :begun_at::float8, lease_until = :lease_until::float8,
    ended_at = NULL, expires_at = :expires_at::float8
WHERE scope = :scope::text AND key = :key::text AND operation = :operation::text
  AND fence = :seen::bigint AND outcome_json IS NULL
RETURNING fence;

-- name: end_entry
-- Fenced: whoever was taken over changes nothing.
-- index: holdfast_ledger_pkey
-- returns: fence
UPDATE holdfast_ledger SET state = :state::text, ended_at = :now::float8, lease_until = NULL,
    expires_at = :expires_at::float8, outcome_json = :outcome_json::text
WHERE scope = :scope::text AND key = :key::text AND operation = :operation::text
  AND fence = :fence::bigint AND owner = :owner::text AND state = 'in-progress'
RETURNING fence;

-- name: extend_entry
-- A lease that has run out may be renewed as long as nobody has taken over.
-- index: holdfast_ledger_pkey
-- returns: fence
UPDATE holdfast_ledger SET lease_until = :lease_until::float8, expires_at = :expires_at::float8
WHERE scope = :scope::text AND key = :key::text AND operation = :operation::text
  AND fence = :fence::bigint AND owner = :owner::text AND state = 'in-progress'
RETURNING fence;

-- name: unfinished_entries
-- Calls whose runner died: what a recovery asks the outside about.
-- index: holdfast_ledger_lease
-- returns: scope operation key fingerprint state fence owner attempt begun_at lease_until ended_at outcome_json
SELECT scope, operation, key, fingerprint, state, fence, owner, attempt, begun_at, lease_until, ended_at,
    outcome_json
FROM holdfast_ledger
WHERE state = 'in-progress' AND lease_until <= :now::float8 AND (:scope::text IS NULL OR scope = :scope::text)
  AND scope <> 'holdfast.step'
ORDER BY lease_until LIMIT :limit::int;

-- name: prune_entries
-- index: holdfast_ledger_expiry
-- returns: gone
DELETE FROM holdfast_ledger WHERE (scope, key, operation) IN (
    SELECT scope, key, operation FROM holdfast_ledger
    WHERE expires_at IS NOT NULL AND expires_at <= :now::float8 ORDER BY expires_at LIMIT :limit::int
    FOR UPDATE SKIP LOCKED)
RETURNING 1 AS gone;

-- name: runs_task
-- Whether a claim of a task still holds.
-- index: holdfast_task_pkey
-- returns: fence
SELECT fence FROM holdfast_task
WHERE id = :id::text AND fence = :fence::bigint AND lease_until IS NOT NULL;

-- name: hold_task
-- The same, and so it stays until this transaction ends: whoever takes a task away locks it FOR UPDATE. The
-- weakest lock that keeps those out lets renewals of the lease through, however long the transaction is open.
-- index: holdfast_task_pkey
-- returns: fence
SELECT fence FROM holdfast_task
WHERE id = :id::text AND fence = :fence::bigint AND lease_until IS NOT NULL
FOR KEY SHARE;
