-- Starts of executions, and changes that forbid some.

-- name: share_starts
-- Whether no transaction holds the starts, or waits to hold them. They are held by few, so there is one lock for all
-- projects.
-- returns: is_shared
SELECT pg_try_advisory_xact_lock_shared(1751937127, 0) AS is_shared;

-- name: hold_starts
-- Waits for the batches that share the starts, longer than for a row: no other batch gets in between.
-- returns: held
SELECT set_config('lock_timeout', :wait::text, true) || pg_advisory_xact_lock(1751937127, 0)::text
    || set_config('lock_timeout', before.value, true) AS held
FROM (SELECT current_setting('lock_timeout') AS value OFFSET 0) AS before;
