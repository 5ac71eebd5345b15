-- Queues, types, nodes, schedules and dead letters.

-- name: pause_queue
-- index: holdfast_queue_pkey
INSERT INTO holdfast_queue (name, paused_at, paused_by, reason) VALUES (:name::text, :now::float8, :actor::text, :reason::text)
ON CONFLICT (name) DO UPDATE SET paused_at = :now::float8, paused_by = :actor::text, reason = :reason::text;

-- name: resume_queue
-- index: holdfast_queue_pkey
-- returns: name
UPDATE holdfast_queue SET paused_at = NULL, paused_by = NULL, reason = NULL
WHERE name = :name::text AND paused_at IS NOT NULL RETURNING name;

-- name: queues
-- returns: name paused_at paused_by reason
SELECT name, paused_at, paused_by, reason FROM holdfast_queue ORDER BY name;

-- name: register_types
-- index: holdfast_type_pkey
INSERT INTO holdfast_type (name, queue, config_json, registered_at, registered_by)
SELECT name, queue, config_json, :now::float8, :node::text FROM {rows: name text, queue text, config_json text}
ON CONFLICT (name) DO UPDATE SET queue = excluded.queue, config_json = excluded.config_json,
    registered_at = excluded.registered_at, registered_by = excluded.registered_by;

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

-- name: prune_counters
-- Deletes counters that are zero. A counter that is needed again is inserted again.
-- index: holdfast_counter_pkey
-- returns: gone
DELETE FROM holdfast_counter WHERE (queue, type, priority, status) IN (
    SELECT queue, type, priority, status FROM holdfast_counter WHERE n = 0
    LIMIT :limit::int FOR UPDATE SKIP LOCKED)
RETURNING 1 AS gone;

-- name: join_node
-- Registers a node that is new or was declared lost. Returns no row otherwise.
-- returns: id
-- index: holdfast_node_pkey
INSERT INTO holdfast_node (id, started_at, seen_at, info_json) VALUES (:id::text, :now::float8, :now::float8, :info_json::text)
ON CONFLICT (id) DO UPDATE SET seen_at = :now::float8, info_json = :info_json::text, lost_at = NULL
    WHERE holdfast_node.lost_at IS NOT NULL
RETURNING id;

-- name: beat_node
-- returns: latest_at
-- index: holdfast_node_pkey
UPDATE holdfast_node SET seen_at = :now::float8, info_json = :info_json::text
WHERE id = :id::text AND lost_at IS NULL
RETURNING (SELECT max(seen_at) FROM holdfast_node) AS latest_at;

-- name: latest_seen
-- The latest heartbeat, for a node that is not registered yet. Reads all nodes, which are few.
-- returns: latest_at
SELECT max(seen_at) AS latest_at FROM holdfast_node;

-- name: lose_nodes
-- Declares each node lost once, unless it sent a heartbeat since it was read.
-- returns: id seen_at
-- index: holdfast_node_pkey
UPDATE holdfast_node n SET lost_at = :now::float8
FROM {rows: id text, seen_at double precision}
WHERE n.id = r.id AND n.seen_at = r.seen_at AND n.lost_at IS NULL
RETURNING n.id, n.seen_at;

-- name: nodes
-- returns: id started_at seen_at info_json
SELECT id, started_at, seen_at, info_json FROM holdfast_node ORDER BY id;

-- name: forget_node
-- returns: id
-- index: holdfast_node_pkey
DELETE FROM holdfast_node WHERE id = :id::text RETURNING id;

-- name: prune_nodes
DELETE FROM holdfast_node WHERE seen_at < :before::float8;

-- name: put_schedule
-- Keeps the next time if spec and timezone are unchanged.
-- index: holdfast_schedule_pkey
INSERT INTO holdfast_schedule (name, type, queue, spec, timezone, payload_json, priority, next_at, owner, announced_at)
VALUES (:name::text, :type::text, :queue::text, :spec::text, :timezone::text, :payload_json::text, :priority::int, :next_at::float8,
    :owner::text, :announced_at::float8)
ON CONFLICT (name) DO UPDATE SET type = excluded.type, queue = excluded.queue, payload_json = excluded.payload_json,
    priority = excluded.priority, spec = excluded.spec, timezone = excluded.timezone,
    owner = excluded.owner, announced_at = excluded.announced_at,
    next_at = CASE WHEN holdfast_schedule.spec = excluded.spec AND holdfast_schedule.timezone = excluded.timezone
              THEN holdfast_schedule.next_at ELSE excluded.next_at END;

-- name: schedules
-- returns: name type queue spec timezone payload_json priority next_at fired_at paused owner announced_at
SELECT name, type, queue, spec, timezone, payload_json, priority, next_at, fired_at, paused, owner, announced_at
FROM holdfast_schedule ORDER BY name;

-- name: lock_schedule
-- index: holdfast_schedule_pkey
-- returns: name type queue spec timezone payload_json priority next_at fired_at paused owner announced_at
SELECT name, type, queue, spec, timezone, payload_json, priority, next_at, fired_at, paused, owner, announced_at
FROM holdfast_schedule WHERE name = :name::text FOR UPDATE;

-- name: announce_schedules
-- Records that the code of a node defines these schedules.
-- index: holdfast_schedule_pkey
UPDATE holdfast_schedule SET announced_at = :now::float8 WHERE name = ANY(:names::text[]) AND owner = 'code';

-- name: hold_schedule
-- index: holdfast_schedule_pkey
UPDATE holdfast_schedule SET paused = :paused::int, next_at = :next_at::float8 WHERE name = :name::text;

-- name: take_schedule
-- Only one node gets the schedule: the first that finds the next time unchanged under the row lock.
-- index: holdfast_schedule_pkey
-- returns: name
UPDATE holdfast_schedule SET next_at = :next_at::float8, fired_at = :now::float8
WHERE name = :name::text AND next_at = :seen::float8 AND paused = 0 RETURNING name;

-- name: drop_schedule
-- index: holdfast_schedule_pkey
DELETE FROM holdfast_schedule WHERE name = :name::text;

-- name: dead_groups
-- index: holdfast_task_dead
-- returns: fingerprint n first_at last_at sample_id
SELECT coalesce(fingerprint, '') AS fingerprint, count(*) AS n, min(finished_at) AS first_at,
    max(finished_at) AS last_at, max(id) AS sample_id
FROM holdfast_task WHERE status = 'failed' GROUP BY fingerprint ORDER BY n DESC LIMIT :limit::int;

-- name: count_dead
-- `+ 0` keeps the planner from the index of all finished tasks, so only dead letters are scanned.
-- index: holdfast_task_dead
-- returns: n
SELECT count(*) AS n FROM holdfast_task WHERE status = 'failed'
  AND (:fingerprint::text IS NULL OR fingerprint = :fingerprint::text)
  AND (:type::text IS NULL OR type = :type::text) AND (:queue::text IS NULL OR queue = :queue::text)
  AND (:before::float8 IS NULL OR finished_at + 0 <= :before::float8);

-- name: find_dead
-- index: holdfast_task_dead
-- returns: task
SELECT {task} FROM holdfast_task WHERE status = 'failed'
  AND (:fingerprint::text IS NULL OR fingerprint = :fingerprint::text)
  AND (:type::text IS NULL OR type = :type::text) AND (:queue::text IS NULL OR queue = :queue::text)
  AND (:before::float8 IS NULL OR finished_at <= :before::float8)
ORDER BY finished_at DESC, id DESC LIMIT :limit::int OFFSET :skip::int;

-- name: durability
-- The settings of Holdfast's connections, which raise a weak `synchronous_commit`.
-- returns: name value
SELECT name, setting AS value FROM pg_settings
WHERE name IN ('fsync', 'full_page_writes', 'synchronous_commit') ORDER BY name;
