-- Types that nodes have registered.

-- name: register_types
-- index: holdfast_type (primary key)
INSERT INTO holdfast_type (name, queue, config_json, registered_at, registered_by)
SELECT name, queue, config_json, :now, :node FROM {rows: name text, queue text, config_json text} WHERE true
ON CONFLICT (name) DO UPDATE SET queue = excluded.queue, config_json = excluded.config_json,
    registered_at = excluded.registered_at, registered_by = excluded.registered_by;

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
