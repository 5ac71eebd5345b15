-- Types that nodes have registered.

-- name: register_types
-- A project changes only the types that it defined; it may repeat the definition of another.
-- index: holdfast_type (primary key)
-- returns: name
INSERT INTO holdfast_type (name, queue, config_json, registered_at, registered_by, project)
SELECT name, queue, config_json, :now, :actor, :project FROM {rows: name text, queue text, config_json text} WHERE true
ON CONFLICT (name) DO UPDATE SET queue = excluded.queue, config_json = excluded.config_json,
    registered_at = excluded.registered_at, registered_by = excluded.registered_by,
    project = CASE WHEN excluded.project = '' THEN '' ELSE holdfast_type.project END
WHERE excluded.project = '' OR holdfast_type.project = excluded.project
   OR (holdfast_type.queue = excluded.queue AND holdfast_type.config_json = excluded.config_json)
RETURNING name;

-- name: lock_types
-- index: holdfast_type (primary key)
-- returns: name queue config_json
SELECT name, queue, config_json FROM holdfast_type WHERE name IN (SELECT value FROM json_each(:names)) ORDER BY name;

-- name: types
-- returns: name queue config_json
SELECT name, queue, config_json FROM holdfast_type ORDER BY name;

-- name: prune_types
-- Types that no node has registered recently and that no task, schedule or node refers to.
-- index: holdfast_type, holdfast_counter, holdfast_schedule (primary keys)
DELETE FROM holdfast_type WHERE registered_at < :before
  AND NOT EXISTS (SELECT 1 FROM holdfast_counter c WHERE c.type = holdfast_type.name AND c.n <> 0)
  AND NOT EXISTS (SELECT 1 FROM holdfast_schedule s WHERE s.type = holdfast_type.name)
  AND NOT EXISTS (SELECT 1 FROM holdfast_node n, json_each(n.info_json, '$.types') k WHERE k.value = holdfast_type.name);
