-- The ledger of idempotent calls. The rules are in core/ledger.py.

-- name: begin_entry
-- Returns no row if the key exists; the caller then locks the entry and applies the rules.
-- index: holdfast_ledger (primary key)
-- returns: fence
INSERT INTO holdfast_ledger (scope, key, operation, fingerprint, state, fence, owner, attempt, begun_at,
    lease_until, expires_at)
VALUES (:scope, :key, :operation, :fingerprint, 'in-progress', :fence, :owner, 1, :now, :lease_until,
    :expires_at)
ON CONFLICT (scope, key, operation) DO NOTHING
RETURNING fence;

-- name: lock_entry
-- index: holdfast_ledger (primary key)
-- returns: scope operation key fingerprint state fence owner attempt begun_at lease_until ended_at outcome_json
SELECT scope, operation, key, fingerprint, state, fence, owner, attempt, begun_at, lease_until, ended_at,
    outcome_json
FROM holdfast_ledger WHERE scope = :scope AND key = :key AND operation = :operation;

-- name: get_entry
-- index: holdfast_ledger (primary key)
-- returns: scope operation key fingerprint state fence owner attempt begun_at lease_until ended_at outcome_json
SELECT scope, operation, key, fingerprint, state, fence, owner, attempt, begun_at, lease_until, ended_at,
    outcome_json
FROM holdfast_ledger WHERE scope = :scope AND key = :key AND operation = :operation;

-- name: retake_entry
-- Takes over an entry without an outcome. The guard is the fence that was read.
-- index: holdfast_ledger (primary key)
-- returns: fence
UPDATE holdfast_ledger SET state = 'in-progress', fence = :fence, owner = :owner, attempt = :attempt,
    begun_at = :begun_at, lease_until = :lease_until, ended_at = NULL, expires_at = :expires_at
WHERE scope = :scope AND key = :key AND operation = :operation AND fence = :seen
  AND outcome_json IS NULL
RETURNING fence;

-- name: end_entry
-- Fenced: a runner whose entry was taken over changes nothing.
-- index: holdfast_ledger (primary key)
-- returns: fence
UPDATE holdfast_ledger SET state = :state, ended_at = :now, lease_until = NULL, expires_at = :expires_at,
    outcome_json = :outcome_json
WHERE scope = :scope AND key = :key AND operation = :operation AND fence = :fence AND owner = :owner
  AND state = 'in-progress'
RETURNING fence;

-- name: extend_entry
-- An expired lease can be renewed unless another runner has taken over the entry.
-- index: holdfast_ledger (primary key)
-- returns: fence
UPDATE holdfast_ledger SET lease_until = :lease_until, expires_at = :expires_at
WHERE scope = :scope AND key = :key AND operation = :operation AND fence = :fence AND owner = :owner
  AND state = 'in-progress'
RETURNING fence;

-- name: unfinished_entries
-- Entries whose lease has expired. A recovery has to find out whether their effects happened.
-- index: holdfast_ledger_lease
-- returns: scope operation key fingerprint state fence owner attempt begun_at lease_until ended_at outcome_json
SELECT scope, operation, key, fingerprint, state, fence, owner, attempt, begun_at, lease_until, ended_at,
    outcome_json
FROM holdfast_ledger
WHERE state = 'in-progress' AND lease_until <= :now AND (:scope IS NULL OR scope = :scope)
  AND scope <> 'holdfast.step'
ORDER BY lease_until LIMIT :limit;

-- name: prune_entries
-- index: holdfast_ledger_expiry
-- returns: gone
DELETE FROM holdfast_ledger WHERE (scope, key, operation) IN (
    SELECT scope, key, operation FROM holdfast_ledger
    WHERE expires_at IS NOT NULL AND expires_at <= :now ORDER BY expires_at LIMIT :limit)
RETURNING 1 AS gone;

-- name: forget_steps
-- Deletes the steps of pruned tasks. A step lives as long as its task.
-- index: holdfast_ledger (primary key)
DELETE FROM holdfast_ledger
WHERE scope = 'holdfast.step' AND key IN (SELECT value FROM json_each(:ids));

-- name: runs_task
-- Whether the task still runs under this fence.
-- index: holdfast_task (primary key)
-- returns: fence
SELECT fence FROM holdfast_task WHERE id = :id AND fence = :fence AND lease_until IS NOT NULL;

-- name: hold_task
-- As `runs_task`. With one writer this stays true until the transaction ends.
-- index: holdfast_task (primary key)
-- returns: fence
SELECT fence FROM holdfast_task WHERE id = :id AND fence = :fence AND lease_until IS NOT NULL;
