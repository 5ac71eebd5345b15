-- Schedules and their next times.

-- name: put_schedule
-- Keeps the next time if spec and timezone are unchanged.
-- index: holdfast_schedule_pkey
INSERT INTO holdfast_schedule (name, type, queue, spec, timezone, payload_json, priority, next_at, owner, announced_at,
    project)
VALUES (:name::text, :type::text, :queue::text, :spec::text, :timezone::text, :payload_json::text, :priority::int, :next_at::float8,
    :owner::text, :announced_at::float8, :project::text)
ON CONFLICT (name) DO UPDATE SET type = excluded.type, queue = excluded.queue, payload_json = excluded.payload_json,
    priority = excluded.priority, spec = excluded.spec, timezone = excluded.timezone,
    owner = excluded.owner, announced_at = excluded.announced_at, project = excluded.project,
    version = holdfast_schedule.version + 1,
    next_at = CASE WHEN holdfast_schedule.spec = excluded.spec AND holdfast_schedule.timezone = excluded.timezone
              THEN holdfast_schedule.next_at ELSE excluded.next_at END;

-- name: schedules
-- returns: name type queue spec timezone payload_json priority next_at fired_at paused owner announced_at project version
SELECT name, type, queue, spec, timezone, payload_json, priority, next_at, fired_at, paused, owner, announced_at, project,
    version
FROM holdfast_schedule ORDER BY name;

-- name: lock_schedule
-- index: holdfast_schedule_pkey
-- returns: name type queue spec timezone payload_json priority next_at fired_at paused owner announced_at project version
SELECT name, type, queue, spec, timezone, payload_json, priority, next_at, fired_at, paused, owner, announced_at, project,
    version
FROM holdfast_schedule WHERE name = :name::text FOR UPDATE;

-- name: announce_schedules
-- Records that the code of a node defines these schedules.
-- index: holdfast_schedule_pkey
UPDATE holdfast_schedule SET announced_at = :now::float8 WHERE name = ANY(:names::text[]) AND owner IS NOT NULL;

-- name: hold_schedule
-- index: holdfast_schedule_pkey
UPDATE holdfast_schedule SET paused = :paused::int, version = version + 1, next_at = :next_at::float8 WHERE name = :name::text;

-- name: take_schedule
-- Only one node gets the schedule: the first that finds the next time unchanged under the row lock.
-- index: holdfast_schedule_pkey
-- returns: name
UPDATE holdfast_schedule SET next_at = :next_at::float8, fired_at = :now::float8
WHERE name = :name::text AND next_at = :seen::float8 AND paused = 0 RETURNING name;

-- name: drop_schedule
-- index: holdfast_schedule_pkey
DELETE FROM holdfast_schedule WHERE name = :name::text;
