-- Executions of the fleet, as far as every transaction that ends a task knows them.

-- name: end_executions
-- One that its job has counted has another end now: an operator has taken over its late result.
-- index: holdfast_execution (primary key)
UPDATE holdfast_execution AS e SET ended_at = r.ended_at, tallied = CASE WHEN e.tallied = 0 THEN 0 ELSE 2 END
FROM {rows: task_id text, ended_at real}
WHERE e.task_id = r.task_id;

-- name: spare_unserved
-- Leases of executions do not end while no gateway serves agents, nor until the grace after that is over: the agents
-- could not renew them.
-- index: holdfast_task (primary key), holdfast_fleet_service (primary key)
UPDATE holdfast_task AS t SET lease_until = s.until
FROM (SELECT CASE WHEN served_at < :now - :silent THEN :now + grace_seconds ELSE since + grace_seconds END AS until
      FROM holdfast_fleet_service WHERE id = 1 AND grace_seconds > 0
      AND (served_at < :now - :silent OR since + grace_seconds > :now)) s
WHERE t.id IN (SELECT value FROM json_each(:ids))
  AND t.type = :type AND +t.status IN ('running', 'stuck') AND t.lease_until <= :now;
