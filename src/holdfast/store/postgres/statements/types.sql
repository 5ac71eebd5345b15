-- Types that nodes have registered.

-- name: register_types
-- A project changes only the types that it defined; it may repeat the definition of another.
-- index: holdfast_type_pkey
-- returns: name
INSERT INTO holdfast_type (name, queue, config_json, registered_at, registered_by, project)
SELECT name, queue, config_json, :now::float8, :actor::text, :project::text FROM {rows: name text, queue text, config_json text}
ON CONFLICT (name) DO UPDATE SET queue = excluded.queue, config_json = excluded.config_json,
    registered_at = excluded.registered_at, registered_by = excluded.registered_by,
    project = CASE WHEN excluded.project = '' THEN '' ELSE holdfast_type.project END
WHERE excluded.project = '' OR holdfast_type.project = excluded.project
   OR (holdfast_type.queue = excluded.queue AND holdfast_type.config_json = excluded.config_json)
RETURNING name;

-- name: lock_types
-- index: holdfast_type_pkey
-- returns: name queue config_json
SELECT name, queue, config_json FROM holdfast_type WHERE name = ANY(:names::text[]) ORDER BY name FOR NO KEY UPDATE;

-- name: types
-- returns: name queue config_json
SELECT name, queue, config_json FROM holdfast_type ORDER BY name;

-- name: prune_types
-- Types that no node has registered recently and that no task, schedule or node refers to.
-- index: holdfast_type_pkey, holdfast_counter_pkey, holdfast_schedule_pkey
DELETE FROM holdfast_type t WHERE registered_at < :before::float8
  AND NOT EXISTS (SELECT FROM holdfast_counter c WHERE c.type = t.name AND c.n <> 0)
  AND NOT EXISTS (SELECT FROM holdfast_schedule s WHERE s.type = t.name)
  AND NOT EXISTS (SELECT FROM holdfast_node n WHERE (n.info_json::jsonb -> 'types') ? t.name);
