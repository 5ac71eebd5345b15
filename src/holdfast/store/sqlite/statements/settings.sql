-- Settings of the database that a commit relies on.

-- name: durability
-- The value 2 is FULL, 3 is EXTRA.
-- returns: name value
SELECT 'synchronous' AS name, CAST(synchronous AS text) AS value FROM pragma_synchronous;
