-- Presets: searches and commands under a name.

-- name: presets
-- A project has at most 200 of a kind.
-- index: holdfast_preset_pkey
-- returns: project kind name body_json changed_by changed_at version
SELECT project, kind, name, body_json, changed_by, changed_at, version
FROM holdfast_preset WHERE kind = :kind::text ORDER BY project, name;

-- name: lock_preset
-- index: holdfast_preset_pkey
-- returns: project kind name body_json changed_by changed_at version
SELECT project, kind, name, body_json, changed_by, changed_at, version
FROM holdfast_preset WHERE kind = :kind::text AND project = :project::text AND name = :name::text FOR UPDATE;

-- name: count_presets
-- index: holdfast_preset_pkey
-- returns: n
SELECT count(*) AS n FROM holdfast_preset WHERE kind = :kind::text AND project = :project::text;

-- name: put_preset
-- Nothing if another change came between: the version is the next one of what was read.
-- index: holdfast_preset_pkey
-- returns: version
INSERT INTO holdfast_preset (project, kind, name, body_json, changed_by, changed_at, version)
VALUES (:project::text, :kind::text, :name::text, :body_json::text, :changed_by::text, :changed_at::float8, :version::bigint)
ON CONFLICT (kind, project, name) DO UPDATE
SET body_json = excluded.body_json, changed_by = excluded.changed_by, changed_at = excluded.changed_at, version = excluded.version
WHERE holdfast_preset.version = excluded.version - 1
RETURNING version;

-- name: remove_preset
-- index: holdfast_preset_pkey
DELETE FROM holdfast_preset WHERE kind = :kind::text AND project = :project::text AND name = :name::text;
