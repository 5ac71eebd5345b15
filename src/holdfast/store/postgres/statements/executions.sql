-- Executions of the fleet, as far as every transaction that ends a task knows them.

-- name: end_executions
-- index: holdfast_execution_pkey
UPDATE holdfast_execution AS e SET ended_at = r.ended_at
FROM {rows: task_id text, ended_at double precision}
WHERE e.task_id = r.task_id;
