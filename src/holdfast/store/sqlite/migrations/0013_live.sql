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

-- Output of ended tasks is removed by its age.
CREATE INDEX holdfast_output_at ON holdfast_output (at);

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

-- Questions of tasks to people, with their answers. The id is that of the checkpoint with which a task asked.
CREATE TABLE holdfast_decision (
    id             text PRIMARY KEY,
    project        text NOT NULL,
    task_id        text NOT NULL,
    -- names the question within its task
    key            text NOT NULL,
    question       text NOT NULL,
    options_json   text NOT NULL,
    schema_json    text,
    default_json   text,
    assignees_json text NOT NULL,
    deadline_at    real,
    state          text NOT NULL CHECK (state IN ('open', 'decided', 'expired', 'cancelled')),
    choice_json    text,
    data_json      text,
    decided_by     text NOT NULL,
    reason         text NOT NULL,
    decided_at     real,
    version        integer NOT NULL,
    fence          integer NOT NULL,
    created_at     real NOT NULL,
    -- the node whose run asked
    node           text NOT NULL,
    CHECK ((state = 'open') = (decided_at IS NULL))
) STRICT;
CREATE UNIQUE INDEX holdfast_decision_key ON holdfast_decision (task_id, key);
CREATE INDEX holdfast_decision_node ON holdfast_decision (node, decided_at) WHERE decided_at IS NOT NULL;
CREATE INDEX holdfast_decision_open ON holdfast_decision (id) WHERE state = 'open';
CREATE INDEX holdfast_decision_deadline ON holdfast_decision (deadline_at)
    WHERE state = 'open' AND deadline_at IS NOT NULL;

-- What operators did to tasks, and how far the runners have followed.
CREATE TABLE holdfast_intervention (
    id           text PRIMARY KEY,
    project      text NOT NULL,
    task_id      text NOT NULL,
    type         text NOT NULL,
    args_json    text NOT NULL,
    reason       text NOT NULL,
    actor        text NOT NULL,
    requested_by text NOT NULL,
    -- the runner that lost the task; NULL: none had it
    target_node  text,
    target_fence integer,
    state        text NOT NULL CHECK (state IN ('issued', 'delivered', 'applied', 'refused', 'expired')),
    issued_at    real NOT NULL,
    delivered_at real,
    ended_at     real,
    expires_at   real NOT NULL,
    -- when the lease of the target would have ended
    lease_until  real,
    -- when a pending row ends by itself
    due_at       real NOT NULL,
    effect_json  text,
    detail       text NOT NULL,
    CHECK ((state IN ('issued', 'delivered')) = (ended_at IS NULL))
) STRICT;
CREATE INDEX holdfast_intervention_task ON holdfast_intervention (task_id, id);
CREATE INDEX holdfast_intervention_node ON holdfast_intervention (target_node, issued_at)
    WHERE state IN ('issued', 'delivered');
CREATE INDEX holdfast_intervention_due ON holdfast_intervention (due_at) WHERE state IN ('issued', 'delivered');
