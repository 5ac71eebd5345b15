-- Tags of tasks.

-- name: add_tags
-- index: holdfast_task_tag_pkey
INSERT INTO holdfast_task_tag (tag, task_id, project)
SELECT tag, task_id, project FROM {rows: tag text, task_id text, project text}
ON CONFLICT (tag, task_id) DO NOTHING;

-- name: write_tags
-- index: holdfast_task_pkey
UPDATE holdfast_task t SET tags_json = r.tags_json
FROM {rows: id text, tags_json text}
WHERE t.id = r.id;

-- name: forget_tags
-- index: holdfast_task_tag_task
DELETE FROM holdfast_task_tag WHERE task_id = ANY(:ids::text[]);
