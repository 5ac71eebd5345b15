-- The fleet: hosts, blocks, jobs and their executions, approvals, agents, outbox, webhooks, outputs.

-- Executions are pruned with their jobs, all other tasks by their age.
DROP INDEX holdfast_task_finished;
CREATE INDEX holdfast_task_finished ON holdfast_task (finished_at)
    WHERE finished_at IS NOT NULL AND type <> 'fleet.run';

CREATE TABLE holdfast_host (
    id          text PRIMARY KEY,
    project     text NOT NULL,
    name        text COLLATE "C" NOT NULL,
    driver      text NOT NULL CHECK (driver IN ('agent', 'ssh', 'simulated')),
    address     text NOT NULL,
    labels_json text NOT NULL,
    facts_json  text NOT NULL,
    state       text NOT NULL CHECK (state IN ('active', 'cordoned', 'gone')),
    created_at  double precision NOT NULL,
    updated_at  double precision NOT NULL,
    version     bigint NOT NULL
);
CREATE UNIQUE INDEX holdfast_host_name ON holdfast_host (project, name);
CREATE INDEX holdfast_host_pushed ON holdfast_host (driver, id) WHERE driver <> 'agent';
CREATE INDEX holdfast_host_gone ON holdfast_host (updated_at) WHERE state = 'gone';

CREATE TABLE holdfast_host_group (
    project    text NOT NULL,
    name       text COLLATE "C" NOT NULL,
    selector   text NOT NULL,
    created_at double precision NOT NULL,
    version    bigint NOT NULL,
    PRIMARY KEY (project, name)
);

-- Every change raises holdfast_project.block_epoch.
CREATE TABLE holdfast_block (
    id           text PRIMARY KEY,
    project      text NOT NULL,
    host_id      text,
    selector     text,
    command_type text NOT NULL,
    reason       text NOT NULL,
    owner        text NOT NULL,
    effect       text NOT NULL CHECK (effect IN ('refuse', 'hold')),
    on_running   text NOT NULL CHECK (on_running IN ('finish', 'pause', 'abort')),
    on_lift      text NOT NULL CHECK (on_lift IN ('requeue', 'drop', 'reapprove')),
    window_json  text,
    expires_at   double precision,
    lifted_at    double precision,
    lifted_by    text NOT NULL,
    created_at   double precision NOT NULL,
    version      bigint NOT NULL,
    CHECK ((host_id IS NULL) <> (selector IS NULL))
);
CREATE INDEX holdfast_block_active ON holdfast_block (project, id) WHERE lifted_at IS NULL;
CREATE INDEX holdfast_block_lifted ON holdfast_block (lifted_at) WHERE lifted_at IS NOT NULL;
CREATE INDEX holdfast_block_expires ON holdfast_block (expires_at)
    WHERE lifted_at IS NULL AND expires_at IS NOT NULL;

CREATE TABLE holdfast_job (
    id               text PRIMARY KEY,
    project          text NOT NULL,
    external_id      text,
    request_hash     text NOT NULL,
    spec_json        text NOT NULL,
    excluded_json    text NOT NULL,
    digest           text NOT NULL,
    approval_state   text NOT NULL CHECK (approval_state IN (
                         'NOT_REQUIRED', 'WAIT_APPROVAL', 'APPROVED', 'REJECTED', 'EXPIRED', 'VOID')),
    approval_id      text,
    status           text NOT NULL CHECK (status IN (
                         'NEW', 'WAIT_APPROVAL', 'RUNNING', 'PAUSED', 'HALTING', 'SUCCESS', 'PARTIAL', 'FAILED',
                         'CANCELLED', 'REJECTED', 'EXPIRED')),
    halt_json        text,
    rollout_json     text,
    counts_json      text NOT NULL,
    hosts            bigint NOT NULL,
    created_by       text NOT NULL,
    reason           text NOT NULL,
    parent_id        text,
    break_glass_json text,
    created_at       double precision NOT NULL,
    started_at       double precision,
    finished_at      double precision,
    not_after        double precision NOT NULL,
    -- when the rollout looks at the job without an event
    due_at           double precision,
    version          bigint NOT NULL
);
CREATE UNIQUE INDEX holdfast_job_external ON holdfast_job (external_id, project) WHERE external_id IS NOT NULL;
CREATE INDEX holdfast_job_due ON holdfast_job (due_at) WHERE finished_at IS NULL AND due_at IS NOT NULL;
CREATE INDEX holdfast_job_open ON holdfast_job (id) WHERE finished_at IS NULL;
CREATE INDEX holdfast_job_glass ON holdfast_job (project, id) WHERE break_glass_json IS NOT NULL;
CREATE INDEX holdfast_job_finished ON holdfast_job (finished_at) WHERE finished_at IS NOT NULL;

-- What the fleet knows of an execution beside its task. The status lives in the task only; ended_at is set by
-- the transaction that ends the task, whatever ends it. The executions of a job are its pinned targets.
CREATE TABLE holdfast_execution (
    task_id     text PRIMARY KEY,
    job_id      text NOT NULL,
    nth         bigint NOT NULL,
    host_id     text NOT NULL,
    host        text NOT NULL,
    wave        bigint,
    -- the block that holds it
    block_id    text,
    token       bigint,
    -- the fence of the task under that token
    fence       bigint,
    -- tokens whose end the agent has reported
    taken_json  text NOT NULL DEFAULT '[]',
    outcome     text,
    detail      text NOT NULL DEFAULT '',
    exit_code   bigint,
    signal      bigint,
    output_json text,
    late_json   text,
    go_at       double precision,
    ended_at    double precision,
    tallied     bigint NOT NULL DEFAULT 0
);
CREATE UNIQUE INDEX holdfast_execution_job ON holdfast_execution (job_id, nth);
CREATE INDEX holdfast_execution_host ON holdfast_execution (host_id, task_id);
-- Ends that the rollout has not counted.
CREATE INDEX holdfast_execution_ended ON holdfast_execution (job_id) WHERE ended_at IS NOT NULL AND tallied = 0;
CREATE INDEX holdfast_execution_held ON holdfast_execution (block_id) WHERE block_id IS NOT NULL;
-- Admitted executions that have not ended: what a running job waits for.
CREATE INDEX holdfast_execution_open ON holdfast_execution (job_id) WHERE wave IS NOT NULL AND ended_at IS NULL;

CREATE TABLE holdfast_approval (
    id            text PRIMARY KEY,
    project       text NOT NULL,
    job_id        text NOT NULL,
    digest        text NOT NULL,
    rule_json     text NOT NULL,
    state         text NOT NULL CHECK (state IN ('pending', 'approved', 'rejected', 'expired', 'void')),
    requested_by  text NOT NULL,
    excluded_json text NOT NULL,
    created_at    double precision NOT NULL,
    expires_at    double precision NOT NULL,
    ended_at      double precision,
    version       bigint NOT NULL,
    CHECK ((state = 'pending') = (ended_at IS NULL))
);
CREATE INDEX holdfast_approval_pending ON holdfast_approval (expires_at) WHERE state = 'pending';
CREATE INDEX holdfast_approval_job ON holdfast_approval (job_id);

CREATE TABLE holdfast_vote (
    approval_id  text NOT NULL,
    voter        text NOT NULL,
    verdict      text NOT NULL CHECK (verdict IN ('approve', 'reject')),
    reason       text NOT NULL,
    digest       text NOT NULL,
    roles_json   text NOT NULL,
    at           double precision NOT NULL,
    withdrawn_at double precision,
    PRIMARY KEY (approval_id, voter)
);

-- The agent of a host, beside its node. The row commits with the effects of a sync.
CREATE TABLE holdfast_agent (
    host_id           text PRIMARY KEY,
    project           text NOT NULL,
    journal_id        text NOT NULL,
    -- the newest token of the slot when the journal was first seen
    journal_token     bigint NOT NULL,
    boot_id           text NOT NULL,
    boot_token        bigint NOT NULL,
    version           text NOT NULL,
    incarnation       bigint NOT NULL,
    seq               bigint NOT NULL,
    block_epoch       bigint NOT NULL,
    capabilities_json text NOT NULL,
    seen_at           double precision NOT NULL,
    enrolled_at       double precision NOT NULL
);
CREATE INDEX holdfast_agent_seen ON holdfast_agent (seen_at);

-- Whether agents are served. A lease of an execution does not end while no gateway serves them, nor until the grace
-- after such an outage is over.
CREATE TABLE holdfast_fleet_service (
    id            bigint PRIMARY KEY CHECK (id = 1),
    served_at     double precision NOT NULL,
    -- the end of the latest outage
    since         double precision NOT NULL,
    grace_seconds double precision NOT NULL
);

CREATE TABLE holdfast_outbox (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind         text NOT NULL CHECK (kind IN ('PLAN_JOB', 'RUN_EXECUTION', 'WEBHOOK')),
    subject      text NOT NULL,
    payload_json text NOT NULL,
    created_at   double precision NOT NULL,
    due_at       double precision NOT NULL,
    claimed_by   text,
    claim_until  double precision,
    attempts     bigint NOT NULL DEFAULT 0,
    error        text NOT NULL DEFAULT '',
    done_at      double precision
);
CREATE INDEX holdfast_outbox_due ON holdfast_outbox (kind, due_at) WHERE done_at IS NULL;
CREATE INDEX holdfast_outbox_done ON holdfast_outbox (done_at) WHERE done_at IS NOT NULL;
CREATE INDEX holdfast_outbox_subject ON holdfast_outbox (subject, id);
CREATE INDEX holdfast_outbox_waiting ON holdfast_outbox (subject, due_at) WHERE done_at IS NULL;

-- in: a source of signed requests. out: an endpoint that gets events.
CREATE TABLE holdfast_webhook (
    id           text PRIMARY KEY,
    project      text NOT NULL,
    direction    text NOT NULL CHECK (direction IN ('in', 'out')),
    name         text NOT NULL,
    url          text NOT NULL,
    kinds_json   text NOT NULL,
    -- the newest secret first; two while one replaces the other
    secrets_json text NOT NULL,
    state        text NOT NULL CHECK (state IN ('active', 'disabled')),
    -- the position of the feed that deliveries have been made up to
    position     text,
    created_by   text NOT NULL,
    created_at   double precision NOT NULL,
    version      bigint NOT NULL
);
CREATE UNIQUE INDEX holdfast_webhook_name ON holdfast_webhook (direction, name);

-- Outputs of ended executions, each content once.
CREATE TABLE holdfast_blob (
    sha256 text PRIMARY KEY,
    size   bigint NOT NULL,
    data   bytea NOT NULL,
    refs   bigint NOT NULL
);
