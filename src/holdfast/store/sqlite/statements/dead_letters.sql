-- Dead letters: groups, counts and searches. A failed execution is none: its job runs it again.

-- name: dead_groups
-- The first task of a group did not fail with a parent, or its parents are no dead letters any more: a task has
-- a later id than those that it depends on.
-- index: holdfast_task_dead
-- returns: fingerprint n first_at last_at first_id sample_id
SELECT coalesce(fingerprint, '') AS fingerprint, count(*) AS n, min(finished_at) AS first_at,
    max(finished_at) AS last_at, min(id) AS first_id, max(id) AS sample_id
FROM holdfast_task WHERE status = 'failed' AND type <> 'fleet.run' GROUP BY fingerprint ORDER BY n DESC LIMIT :limit;

-- name: dead_by_hour
-- The dead letters of each cause by the hour of their death.
-- index: holdfast_task_dead
-- returns: fingerprint hour n
SELECT coalesce(fingerprint, '') AS fingerprint, CAST((finished_at - :since) / 3600 AS integer) AS hour, count(*) AS n
FROM holdfast_task WHERE status = 'failed' AND type <> 'fleet.run' AND finished_at + 0 >= :since
GROUP BY 1, 2;

-- name: count_dead
-- `+ 0` keeps the planner from the index of all finished tasks, so only dead letters are scanned.
-- index: holdfast_task_dead
-- returns: n
SELECT count(*) AS n FROM holdfast_task WHERE status = 'failed' AND type <> 'fleet.run'
  AND (:fingerprint IS NULL OR fingerprint = :fingerprint)
  AND (:type IS NULL OR type = :type) AND (:queue IS NULL OR queue = :queue)
  AND (:before IS NULL OR finished_at + 0 <= :before);

-- name: find_dead
-- index: holdfast_task_dead
-- returns: task
SELECT {task} FROM holdfast_task WHERE status = 'failed' AND type <> 'fleet.run'
  AND (:fingerprint IS NULL OR fingerprint = :fingerprint)
  AND (:type IS NULL OR type = :type) AND (:queue IS NULL OR queue = :queue)
  AND (:before IS NULL OR finished_at <= :before)
ORDER BY finished_at DESC, id DESC LIMIT :limit OFFSET :skip;
