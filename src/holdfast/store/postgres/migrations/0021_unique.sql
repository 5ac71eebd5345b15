-- Unique windows: the task that took each last (core/unique.py). A row goes with its task.
CREATE TABLE holdfast_unique (
    project  text COLLATE "C" NOT NULL,
    type     text COLLATE "C" NOT NULL,
    key      text COLLATE "C" NOT NULL,
    task_id  text NOT NULL,
    taken_at double precision NOT NULL,
    PRIMARY KEY (project, type, key)
);
CREATE INDEX holdfast_unique_task ON holdfast_unique (task_id);
