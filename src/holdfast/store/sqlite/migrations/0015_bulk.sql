-- Changes of many tasks as runs.

-- The figures commit with each batch. done + failed tasks of ids_json were judged: those from its
-- beginning on, but for the held ones that progress_json has. next_at: when the next batch is due.
CREATE TABLE holdfast_bulk_run (
    id          text PRIMARY KEY,
    spec_json   text NOT NULL,
    ids_json    text NOT NULL,
    state       text NOT NULL CHECK (state IN ('running', 'done', 'stopped')),
    total       integer NOT NULL,
    done        integer NOT NULL,
    failed      integer NOT NULL,
    errors_json text NOT NULL,
    detail      text NOT NULL,
    created_at  real NOT NULL,
    updated_at  real NOT NULL,
    next_at     real NOT NULL,
    version     integer NOT NULL,
    progress_json text NOT NULL
) STRICT;
CREATE INDEX holdfast_bulk_run_running ON holdfast_bulk_run (next_at) WHERE state = 'running';
CREATE INDEX holdfast_bulk_run_ended ON holdfast_bulk_run (updated_at) WHERE state <> 'running';
