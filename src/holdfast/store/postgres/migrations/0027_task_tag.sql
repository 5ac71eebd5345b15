-- Tags (core/tags.py): in the row of the task, and here for searches. A row goes with its task.
ALTER TABLE holdfast_task ADD COLUMN tags_json text;
CREATE TABLE holdfast_task_tag (
    tag     text COLLATE "C" NOT NULL,
    task_id text COLLATE "C" NOT NULL,
    project text COLLATE "C" NOT NULL,
    PRIMARY KEY (tag, task_id)
);
CREATE INDEX holdfast_task_tag_task ON holdfast_task_tag (task_id);
-- Tags of a project. The default one has no entries here, as in holdfast_task_project.
CREATE INDEX holdfast_task_tag_project ON holdfast_task_tag (project, tag, task_id) WHERE project <> 'default';
-- The labels that nodes have set are tags.
INSERT INTO holdfast_task_tag (tag, task_id, project)
SELECT DISTINCT l.value ->> 0, s.task_id, s.project
FROM holdfast_sync_task s CROSS JOIN LATERAL json_array_elements(s.content_json::json -> 'labels') l(value)
WHERE EXISTS (SELECT FROM holdfast_task t WHERE t.id = s.task_id);
UPDATE holdfast_task t SET tags_json = g.tags_json
FROM (SELECT task_id, '[' || string_agg(to_json(tag)::text, ',' ORDER BY tag) || ']' AS tags_json
      FROM holdfast_task_tag GROUP BY task_id) g
WHERE t.id = g.task_id;
