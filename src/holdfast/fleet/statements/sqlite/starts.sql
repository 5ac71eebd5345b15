-- Starts of executions, and changes that forbid some. One transaction writes at a time, so there is nothing to lock.

-- name: share_starts
-- returns: is_shared
SELECT 1 AS is_shared;

-- name: hold_starts
-- returns: held
SELECT 1 AS held WHERE :wait IS NOT NULL;
