-- Tags of tasks.

-- name: add_tags
-- index: holdfast_task_tag (primary key)
INSERT OR IGNORE INTO holdfast_task_tag (tag, task_id, project)
SELECT tag, task_id, project FROM {rows: tag text, task_id text, project text};

-- name: write_tags
-- index: holdfast_task (primary key)
UPDATE holdfast_task AS t SET tags_json = r.tags_json
FROM {rows: id text, tags_json text}
WHERE t.id = r.id;

-- name: forget_tags
-- index: holdfast_task_tag_task
DELETE FROM holdfast_task_tag WHERE task_id IN (SELECT value FROM json_each(:ids));
