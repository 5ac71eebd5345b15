-- Task groups and their members.

-- name: add_group
-- Waits for a transaction that inserts a group of this id.
-- index: holdfast_task_group_pkey
INSERT INTO holdfast_task_group (id, project, size, created_at)
VALUES (:id::text, :project::text, :size::int, :now::float8)
ON CONFLICT (id) DO NOTHING;

-- name: get_group
-- index: holdfast_task_group_pkey
-- returns: id project size created_at
SELECT id, project, size, created_at FROM holdfast_task_group WHERE id = :id::text;

-- name: add_members
-- index: holdfast_member_pkey
INSERT INTO holdfast_member (group_id, nth, task_id)
SELECT :id::text, r.nth, r.task_id FROM {rows: nth integer, task_id text}
ON CONFLICT (group_id, nth) DO NOTHING;

-- name: group_counts
-- index: holdfast_member_pkey, holdfast_task_pkey
-- returns: status n
SELECT t.status, count(*) AS n FROM holdfast_member m JOIN holdfast_task t ON t.id = m.task_id
WHERE m.group_id = :id::text GROUP BY t.status;

-- name: group_members
-- index: holdfast_member_pkey
-- returns: nth task_id
SELECT nth, task_id FROM holdfast_member WHERE group_id = :id::text AND nth > :after::int
ORDER BY nth LIMIT :limit::int;

-- name: open_members
-- Members that have not ended, the last first.
-- index: holdfast_member_pkey, holdfast_task_pkey
-- returns: nth task_id
SELECT m.nth, m.task_id FROM holdfast_member m JOIN holdfast_task t ON t.id = m.task_id
WHERE m.group_id = :id::text AND m.nth < :below::int AND t.status NOT IN ('completed', 'failed', 'aborted')
ORDER BY m.nth DESC LIMIT :limit::int;

-- name: forget_groups
-- Groups whose tasks are gone.
-- index: holdfast_task_group_created, holdfast_member_pkey
-- returns: gone
DELETE FROM holdfast_task_group WHERE id IN (
    SELECT g.id FROM holdfast_task_group g
    WHERE g.created_at <= :before::float8
      AND NOT EXISTS (SELECT FROM holdfast_member m WHERE m.group_id = g.id)
    ORDER BY g.created_at LIMIT :limit::int)
RETURNING 1 AS gone;
