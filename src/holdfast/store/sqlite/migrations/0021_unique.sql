-- Unique windows: the task that took each last (core/unique.py). A row goes with its task.
CREATE TABLE holdfast_unique (
    project  text NOT NULL,
    type     text NOT NULL,
    key      text NOT NULL,
    task_id  text NOT NULL,
    taken_at real NOT NULL,
    PRIMARY KEY (project, type, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX holdfast_unique_task ON holdfast_unique (task_id);
