-- Task groups and their members.

-- name: add_group
-- index: holdfast_task_group (primary key)
INSERT INTO holdfast_task_group (id, project, size, created_at) VALUES (:id, :project, :size, :now)
ON CONFLICT (id) DO NOTHING;

-- name: get_group
-- index: holdfast_task_group (primary key)
-- returns: id project size created_at
SELECT id, project, size, created_at FROM holdfast_task_group WHERE id = :id;

-- name: add_members
-- index: holdfast_member (primary key)
INSERT INTO holdfast_member (group_id, nth, task_id)
SELECT :id, nth, task_id FROM {rows: nth integer, task_id text} WHERE true
ON CONFLICT (group_id, nth) DO NOTHING;

-- name: group_counts
-- index: holdfast_member (primary key), holdfast_task (primary key)
-- returns: status n
SELECT t.status AS status, count(*) AS n
FROM holdfast_member m CROSS JOIN holdfast_task t ON t.id = m.task_id
WHERE m.group_id = :id GROUP BY t.status;

-- name: group_members
-- index: holdfast_member (primary key)
-- returns: nth task_id
SELECT nth, task_id FROM holdfast_member WHERE group_id = :id AND nth > :after ORDER BY nth LIMIT :limit;

-- name: open_members
-- Members that have not ended, the last first.
-- index: holdfast_member (primary key), holdfast_task (primary key)
-- returns: nth task_id
SELECT m.nth AS nth, m.task_id AS task_id
FROM holdfast_member m CROSS JOIN holdfast_task t ON t.id = m.task_id
WHERE m.group_id = :id AND m.nth < :below AND t.status NOT IN ('completed', 'failed', 'aborted')
ORDER BY m.nth DESC LIMIT :limit;

-- name: forget_members
-- index: holdfast_member_task
DELETE FROM holdfast_member WHERE task_id IN (SELECT value FROM json_each(:ids));

-- name: forget_groups
-- Groups whose tasks are gone.
-- index: holdfast_task_group_created, holdfast_member (primary key)
-- returns: gone
DELETE FROM holdfast_task_group WHERE id IN (
    SELECT g.id FROM holdfast_task_group g INDEXED BY holdfast_task_group_created
    WHERE g.created_at <= :before AND NOT EXISTS (SELECT 1 FROM holdfast_member m WHERE m.group_id = g.id)
    ORDER BY g.created_at LIMIT :limit)
RETURNING 1 AS gone;
