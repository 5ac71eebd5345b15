-- The log of the exchange, for changes that no node asked for.

-- name: log_sync_changes
-- Changes of tasks that nodes know by a name. Other tasks have no log.
-- index: holdfast_sync_task_of
INSERT INTO holdfast_sync_log (project, at, node, op, task_id, outcome, from_version, to_version, clock)
SELECT s.project, :now::float8, r.node, :op::text, s.client_id, 'accepted', r.from_version, r.to_version, p.clock
FROM {rows: task_id text, node text, from_version bigint, to_version bigint}
JOIN holdfast_sync_task s ON s.task_id = r.task_id
JOIN holdfast_project p ON p.id = s.project;
