-- Names of tasks, and what the exchange knows of them.

-- name: clients_of
-- The names of tasks.
-- index: holdfast_sync_task_of
-- returns: task_id client_id
SELECT task_id, client_id FROM holdfast_sync_task WHERE task_id = ANY(:ids::text[]);

-- name: named_tasks
-- The tasks of names within a project.
-- index: holdfast_sync_task_pkey
-- returns: client_id task_id
SELECT client_id, task_id FROM holdfast_sync_task
WHERE project = :project::text AND client_id = ANY(:client_ids::text[]);

