-- Tasks. Times are epoch seconds of the store's clock; texts ending in _json are JSON.
--
-- The table has no CHECK. PostgreSQL parses the text of a CHECK for each statement that writes the table: four of
-- them cost about 45 us, a tenth of an enqueue. The core decides what is written; version and fence guard it. SQLite
-- has these CHECKs, so the conformance suite fails on a row that violates them.

CREATE TABLE holdfast_task (
    id              text COLLATE "C" PRIMARY KEY,
    type            text NOT NULL,
    queue           text NOT NULL,
    priority        smallint NOT NULL,
    status          text NOT NULL,
    payload_json    text NOT NULL,
    metadata_json   text,
    options_json    text NOT NULL,
    attempts        integer NOT NULL DEFAULT 0,
    max_attempts    integer NOT NULL,
    deaths          integer NOT NULL DEFAULT 0,
    version         bigint NOT NULL DEFAULT 1,
    fence           bigint NOT NULL DEFAULT 0,
    created_at      double precision NOT NULL,
    updated_at      double precision NOT NULL,
    due_at          double precision NOT NULL,
    started_at      double precision,
    finished_at     double precision,
    node            text,
    lease_until     double precision,
    result_json     text,
    failure_json    text,
    fingerprint     text,
    checkpoint_json text,
    progress_json   text,
    limits          text,
    gate            text,
    waiting_on      integer NOT NULL DEFAULT 0,
    has_dependents  smallint NOT NULL DEFAULT 0,
    idempotency_key text,
    request_hash    text,
    held_by         text,
    project         text NOT NULL DEFAULT 'default',
    -- of the claim: its name, and its lease duration if the claim had its own
    claim_id        text,
    lease_seconds   double precision,
    progress_timeout_seconds double precision,
    progress_due_at double precision,
    assigned_to     text,
    assigned_until  double precision,
    -- position in its enqueued group: breaks ties of due_at, to preserve FIFO order
    nth             integer NOT NULL DEFAULT 0,
    -- ids of the feed records that mention the task, newest last
    history         text NOT NULL DEFAULT ''
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0,
        autovacuum_analyze_scale_factor = 0.05);

-- Ready tasks in claim order: one range scan for each queue and priority.
CREATE INDEX holdfast_task_ready ON holdfast_task (queue, priority, due_at, nth)
    WHERE status = 'queued' AND gate IS NULL;
-- Leases by expiry.
CREATE INDEX holdfast_task_lease ON holdfast_task (lease_until) WHERE status IN ('running', 'stuck');
-- Parked tasks of each limit, in order.
CREATE INDEX holdfast_task_gate ON holdfast_task (gate, priority, due_at, nth)
    WHERE status = 'queued' AND gate IS NOT NULL;
-- Retention.
CREATE INDEX holdfast_task_finished ON holdfast_task (finished_at) WHERE finished_at IS NOT NULL;
-- Dead letters by failure group.
CREATE INDEX holdfast_task_dead ON holdfast_task (fingerprint, finished_at) WHERE status = 'failed';
-- Tasks that wait for something other than a worker.
CREATE INDEX holdfast_task_held ON holdfast_task (id) WHERE status IN ('blocked', 'paused', 'stuck');
CREATE UNIQUE INDEX holdfast_task_key ON holdfast_task (type, idempotency_key, project)
    WHERE idempotency_key IS NOT NULL;
-- Tasks of a project. The default one has no entries here: it would be an index over all tasks.
CREATE INDEX holdfast_task_project ON holdfast_task (project, id) WHERE project <> 'default';
-- Runs that must report progress, by deadline.
CREATE INDEX holdfast_task_progress ON holdfast_task (progress_due_at) WHERE status = 'running' AND progress_due_at IS NOT NULL;
-- Assignments to a node, by the time when they end.
CREATE INDEX holdfast_task_assigned ON holdfast_task (assigned_until) WHERE assigned_until IS NOT NULL;
