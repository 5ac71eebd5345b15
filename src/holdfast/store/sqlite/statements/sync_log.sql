-- The log of the exchange, for changes that no node asked for.

-- name: log_sync_changes
-- Changes of tasks that nodes know by a name. Other tasks have no log.
-- index: holdfast_sync_task_of
INSERT INTO holdfast_sync_log (project, at, node, op, task_id, outcome, from_version, to_version, clock)
SELECT s.project, :now, r.node, :op, s.client_id, 'accepted', r.from_version, r.to_version, p.clock
FROM {rows: task_id text, node text, from_version integer, to_version integer}
CROSS JOIN holdfast_sync_task s ON s.task_id = r.task_id
CROSS JOIN holdfast_project p ON p.id = s.project;
