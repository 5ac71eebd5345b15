-- The ledger of idempotent calls. The rules are in core/ledger.py.

-- name: begin_entry
-- Nothing is returned when the key is there already; the caller looks closer.
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
-- Of an entry without an answer. The fence that was seen is the guard.
-- index: holdfast_ledger (primary key)
-- returns: fence
UPDATE holdfast_ledger SET state = 'in-progress', fence = :fence, owner = :owner, attempt = :attempt,
    begun_at = :begun_at, lease_until = :lease_until, ended_at = NULL, expires_at = :expires_at
WHERE scope = :scope AND key = :key AND operation = :operation AND fence = :seen
  AND outcome_json IS NULL
RETURNING fence;

-- name: end_entry
-- Fenced: whoever was taken over changes nothing.
-- index: holdfast_ledger (primary key)
-- returns: fence
UPDATE holdfast_ledger SET state = :state, ended_at = :now, lease_until = NULL, expires_at = :expires_at,
    outcome_json = :outcome_json
WHERE scope = :scope AND key = :key AND operation = :operation AND fence = :fence AND owner = :owner
  AND state = 'in-progress'
RETURNING fence;

-- name: extend_entry
-- A lease that has run out may be renewed as long as nobody has taken over.
-- index: holdfast_ledger (primary key)
-- returns: fence
UPDATE holdfast_ledger SET lease_until = :lease_until, expires_at = :expires_at
WHERE scope = :scope AND key = :key AND operation = :operation AND fence = :fence AND owner = :owner
  AND state = 'in-progress'
RETURNING fence;

-- name: unfinished_entries
-- Calls whose runner died: what a recovery asks the outside about.
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
-- They live as long as their task.
-- index: holdfast_ledger (primary key)
DELETE FROM holdfast_ledger
WHERE scope = 'holdfast.step' AND key IN (SELECT value FROM json_each(:ids));

-- name: runs_task
-- Whether a claim of a task still holds.
-- index: holdfast_task (primary key)
-- returns: fence
SELECT fence FROM holdfast_task WHERE id = :id AND fence = :fence AND lease_until IS NOT NULL;

-- name: hold_task
-- The same, and so it stays until this transaction ends.
-- index: holdfast_task (primary key)
-- returns: fence
SELECT fence FROM holdfast_task WHERE id = :id AND fence = :fence AND lease_until IS NOT NULL;
