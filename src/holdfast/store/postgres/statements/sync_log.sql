-- The log of the exchange, for changes that no node asked for.

-- name: log_sync_changes
-- Changes of tasks that nodes know by a name. Other tasks have no log. The projects are locked before the
-- entries get their numbers, so the entries of a project commit in the order of their numbers.
-- index: holdfast_sync_task_of, holdfast_project_pkey
WITH changed AS MATERIALIZED (
    SELECT s.project, s.client_id, r.node, r.from_version, r.to_version
    FROM {rows: task_id text, node text, from_version bigint, to_version bigint}
    JOIN holdfast_sync_task s ON s.task_id = r.task_id
), locked AS MATERIALIZED (
    SELECT id, clock FROM holdfast_project WHERE id IN (SELECT project FROM changed) ORDER BY id FOR NO KEY UPDATE
)
INSERT INTO holdfast_sync_log (project, at, node, op, task_id, outcome, from_version, to_version, clock)
SELECT c.project, :now::float8, c.node, :op::text, c.client_id, 'accepted', c.from_version, c.to_version, p.clock
FROM changed c JOIN locked p ON p.id = c.project;
