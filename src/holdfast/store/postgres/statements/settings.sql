-- Settings of the database that a commit relies on.

-- name: durability
-- The settings of Holdfast's connections, which raise a weak `synchronous_commit`.
-- returns: name value
SELECT name, setting AS value FROM pg_settings
WHERE name IN ('fsync', 'full_page_writes', 'synchronous_commit') ORDER BY name;
