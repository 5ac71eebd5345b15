-- The ledger of idempotent calls. The rules are in core/ledger.py.

-- name: begin_entry
-- Returns no row if the key exists; the caller then locks the entry and applies the rules. Waits for an open
-- transaction that has inserted the same key.
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
-- Takes over an entry without an outcome. The guard is the fence that was read.
-- index: holdfast_ledger_pkey
-- returns: fence
UPDATE holdfast_ledger SET state = 'in-progress', fence = :fence::bigint, owner = :owner::text,
    attempt = :attempt::int, begun_at = :begun_at::float8, lease_until = :lease_until::float8,
    ended_at = NULL, expires_at = :expires_at::float8
WHERE scope = :scope::text AND key = :key::text AND operation = :operation::text
  AND fence = :seen::bigint AND outcome_json IS NULL
RETURNING fence;

-- name: end_entry
-- Fenced: a runner whose entry was taken over changes nothing.
-- index: holdfast_ledger_pkey
-- returns: fence
UPDATE holdfast_ledger SET state = :state::text, ended_at = :now::float8, lease_until = NULL,
    expires_at = :expires_at::float8, outcome_json = :outcome_json::text
WHERE scope = :scope::text AND key = :key::text AND operation = :operation::text
  AND fence = :fence::bigint AND owner = :owner::text AND state = 'in-progress'
RETURNING fence;

-- name: extend_entry
-- An expired lease can be renewed unless another runner has taken over the entry.
-- index: holdfast_ledger_pkey
-- returns: fence
UPDATE holdfast_ledger SET lease_until = :lease_until::float8, expires_at = :expires_at::float8
WHERE scope = :scope::text AND key = :key::text AND operation = :operation::text
  AND fence = :fence::bigint AND owner = :owner::text AND state = 'in-progress'
RETURNING fence;

-- name: unfinished_entries
-- Entries whose lease has expired. A recovery has to find out whether their effects happened.
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
-- Whether the task still runs under this fence.
-- index: holdfast_task_pkey
-- returns: fence
SELECT fence FROM holdfast_task
WHERE id = :id::text AND fence = :fence::bigint AND lease_until IS NOT NULL;

-- name: hold_task
-- As `runs_task`, and this stays true until the transaction ends: a transaction that takes the task away locks it
-- FOR UPDATE. FOR KEY SHARE is the weakest lock that conflicts with that. It lets lease renewals through, however
-- long the transaction is open.
-- index: holdfast_task_pkey
-- returns: fence
SELECT fence FROM holdfast_task
WHERE id = :id::text AND fence = :fence::bigint AND lease_until IS NOT NULL
FOR KEY SHARE;
