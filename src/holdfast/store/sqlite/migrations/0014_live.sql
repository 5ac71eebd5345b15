-- Rows that a running task adds to: output, metrics, checkpoints.

-- Bytes of a stream of a run. data is NULL where the middle of a long stream was folded.
CREATE TABLE holdfast_output (
    task_id text NOT NULL,
    fence   integer NOT NULL,
    stream  text NOT NULL,
    start   integer NOT NULL,
    size    integer NOT NULL,
    data    blob,
    at      real NOT NULL,
    PRIMARY KEY (task_id, fence, stream, start)
) STRICT;

-- Totals of each attempt. The total of a task is the sum over its attempts.
CREATE TABLE holdfast_task_metric (
    task_id text NOT NULL,
    node    text NOT NULL,
    fence   integer NOT NULL,
    name    text NOT NULL,
    value   real NOT NULL,
    PRIMARY KEY (task_id, node, fence, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE holdfast_checkpoint (
    id         text PRIMARY KEY,
    task_id    text NOT NULL,
    fence      integer NOT NULL,
    attempt    integer NOT NULL,
    -- numbers the checkpoints of a task
    nth        integer NOT NULL,
    type       text NOT NULL,
    note       text NOT NULL,
    data_json  text NOT NULL,
    created_at real NOT NULL
) STRICT;
CREATE UNIQUE INDEX holdfast_checkpoint_task ON holdfast_checkpoint (task_id, nth);
