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

-- Output of ended tasks is removed by its age.
CREATE INDEX holdfast_output_at ON holdfast_output (at);

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

-- Questions of tasks to people, with their answers. The id is that of the checkpoint with which a task asked.
CREATE TABLE holdfast_decision (
    id             text COLLATE "C" PRIMARY KEY,
    project        text NOT NULL,
    task_id        text COLLATE "C" NOT NULL,
    -- names the question within its task
    key            text COLLATE "C" NOT NULL,
    question       text NOT NULL,
    options_json   text NOT NULL,
    schema_json    text,
    default_json   text,
    assignees_json text NOT NULL,
    deadline_at    double precision,
    state          text NOT NULL CHECK (state IN ('open', 'decided', 'expired', 'cancelled')),
    choice_json    text,
    data_json      text,
    decided_by     text NOT NULL,
    reason         text NOT NULL,
    decided_at     double precision,
    version        bigint NOT NULL,
    fence          bigint NOT NULL,
    created_at     double precision NOT NULL,
    -- the node whose run asked
    node           text COLLATE "C" NOT NULL,
    CHECK ((state = 'open') = (decided_at IS NULL))
);
CREATE UNIQUE INDEX holdfast_decision_key ON holdfast_decision (task_id, key);
CREATE INDEX holdfast_decision_node ON holdfast_decision (node, decided_at) WHERE decided_at IS NOT NULL;
CREATE INDEX holdfast_decision_open ON holdfast_decision (id) WHERE state = 'open';
CREATE INDEX holdfast_decision_deadline ON holdfast_decision (deadline_at)
    WHERE state = 'open' AND deadline_at IS NOT NULL;

-- What operators did to tasks, and how far the runners have followed.
CREATE TABLE holdfast_intervention (
    id           text COLLATE "C" PRIMARY KEY,
    project      text NOT NULL,
    task_id      text COLLATE "C" NOT NULL,
    type         text NOT NULL,
    args_json    text NOT NULL,
    reason       text NOT NULL,
    actor        text NOT NULL,
    requested_by text NOT NULL,
    -- the runner that lost the task; NULL: none had it
    target_node  text COLLATE "C",
    target_fence bigint,
    state        text NOT NULL CHECK (state IN ('issued', 'delivered', 'applied', 'refused', 'expired')),
    issued_at    double precision NOT NULL,
    delivered_at double precision,
    ended_at     double precision,
    expires_at   double precision NOT NULL,
    -- when the lease of the target would have ended
    lease_until  double precision,
    -- when a pending row ends by itself
    due_at       double precision NOT NULL,
    effect_json  text,
    detail       text NOT NULL,
    CHECK ((state IN ('issued', 'delivered')) = (ended_at IS NULL))
);
CREATE INDEX holdfast_intervention_task ON holdfast_intervention (task_id, id);
CREATE INDEX holdfast_intervention_node ON holdfast_intervention (target_node, issued_at)
    WHERE state IN ('issued', 'delivered');
CREATE INDEX holdfast_intervention_due ON holdfast_intervention (due_at) WHERE state IN ('issued', 'delivered');
