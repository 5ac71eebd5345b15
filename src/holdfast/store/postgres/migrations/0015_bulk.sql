-- Changes of many tasks as runs.

-- The figures commit with each batch. done + failed tasks of ids_json were judged, from its beginning.
CREATE TABLE holdfast_bulk_run (
    id          text COLLATE "C" PRIMARY KEY,
    spec_json   text NOT NULL,
    ids_json    text NOT NULL,
    state       text NOT NULL CHECK (state IN ('running', 'done', 'stopped')),
    total       bigint NOT NULL,
    done        bigint NOT NULL,
    failed      bigint NOT NULL,
    errors_json text NOT NULL,
    detail      text NOT NULL,
    created_at  double precision NOT NULL,
    updated_at  double precision NOT NULL,
    version     bigint NOT NULL
);
CREATE INDEX holdfast_bulk_run_running ON holdfast_bulk_run (updated_at) WHERE state = 'running';
CREATE INDEX holdfast_bulk_run_ended ON holdfast_bulk_run (updated_at) WHERE state <> 'running';
