-- Tags (core/tags.py): in the row of the task, and here for searches. A row goes with its task.
ALTER TABLE holdfast_task ADD COLUMN tags_json text;
CREATE TABLE holdfast_task_tag (
    tag     text NOT NULL,
    task_id text NOT NULL,
    project text NOT NULL,
    PRIMARY KEY (tag, task_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX holdfast_task_tag_task ON holdfast_task_tag (task_id);
-- Tags of a project. The default one has no entries here, as in holdfast_task_project.
CREATE INDEX holdfast_task_tag_project ON holdfast_task_tag (project, tag, task_id) WHERE project <> 'default';
-- The labels that nodes have set are tags.
INSERT INTO holdfast_task_tag (tag, task_id, project)
SELECT DISTINCT json_extract(l.value, '$[0]'), s.task_id, s.project
FROM holdfast_sync_task s, json_each(s.content_json, '$.labels') l
WHERE EXISTS (SELECT 1 FROM holdfast_task t WHERE t.id = s.task_id);
UPDATE holdfast_task SET tags_json = (
    SELECT json_group_array(tag) FROM (
        SELECT tag FROM holdfast_task_tag WHERE task_id = holdfast_task.id ORDER BY tag))
WHERE id IN (SELECT task_id FROM holdfast_task_tag);
