-- Rows that a running task adds to: output, metrics, checkpoints.

-- Bytes of a stream of a run. data is NULL where the middle of a long stream was folded.
CREATE TABLE holdfast_output (
    task_id text COLLATE "C" NOT NULL,
    fence   bigint NOT NULL,
    stream  text COLLATE "C" NOT NULL,
    start   bigint NOT NULL,
    size    bigint NOT NULL,
    data    bytea,
    at      double precision NOT NULL,
    PRIMARY KEY (task_id, fence, stream, start)
);

-- Totals of each attempt. The total of a task is the sum over its attempts.
CREATE TABLE holdfast_task_metric (
    task_id text COLLATE "C" NOT NULL,
    node    text COLLATE "C" NOT NULL,
    fence   bigint NOT NULL,
    name    text COLLATE "C" NOT NULL,
    value   double precision NOT NULL,
    PRIMARY KEY (task_id, node, fence, name)
);

CREATE TABLE holdfast_checkpoint (
    id         text COLLATE "C" PRIMARY KEY,
    task_id    text COLLATE "C" NOT NULL,
    fence      bigint NOT NULL,
    attempt    integer NOT NULL,
    -- numbers the checkpoints of a task
    nth        bigint NOT NULL,
    type       text NOT NULL,
    note       text NOT NULL,
    data_json  text NOT NULL,
    created_at double precision NOT NULL
);
CREATE UNIQUE INDEX holdfast_checkpoint_task ON holdfast_checkpoint (task_id, nth);
