-- Tasks. Times are epoch seconds of the store's clock; texts ending in _json are JSON.

CREATE TABLE holdfast_task (
    id              text PRIMARY KEY,
    type            text NOT NULL,
    queue           text NOT NULL,
    priority        integer NOT NULL CHECK (priority BETWEEN 0 AND 3),
    status          text NOT NULL CHECK (status IN (
                        'blocked', 'queued', 'running', 'paused', 'stuck', 'completed', 'failed', 'aborted')),
    payload_json    text NOT NULL,
    metadata_json   text,
    options_json    text NOT NULL,
    attempts        integer NOT NULL DEFAULT 0,
    max_attempts    integer NOT NULL,
    deaths          integer NOT NULL DEFAULT 0,
    version         integer NOT NULL DEFAULT 1,
    fence           integer NOT NULL DEFAULT 0,
    created_at      real NOT NULL,
    updated_at      real NOT NULL,
    due_at          real NOT NULL,
    started_at      real,
    finished_at     real,
    node            text,
    lease_until     real,
    result_json     text,
    failure_json    text,
    fingerprint     text,
    checkpoint_json text,
    progress_json   text,
    limits          text,
    gate            text,
    waiting_on      integer NOT NULL DEFAULT 0,
    has_dependents  integer NOT NULL DEFAULT 0,
    idempotency_key text,
    request_hash    text,
    held_by         text,
    project         text NOT NULL DEFAULT 'default',
    -- of the claim: its name, and its lease duration if the claim had its own
    claim_id        text,
    lease_seconds   real,
    progress_timeout_seconds real,
    progress_due_at real,
    assigned_to     text,
    assigned_until  real,
    -- ids of the feed records that mention the task, newest last
    history         text NOT NULL DEFAULT '',
    CHECK ((status IN ('running', 'stuck')) = (lease_until IS NOT NULL)),
    CHECK ((status IN ('completed', 'failed', 'aborted')) = (finished_at IS NOT NULL))
) STRICT;

-- Ready tasks in claim order: one range scan for each queue and priority.
CREATE INDEX holdfast_task_ready ON holdfast_task (queue, priority, due_at)
    WHERE status = 'queued' AND gate IS NULL;
-- Leases by expiry.
CREATE INDEX holdfast_task_lease ON holdfast_task (lease_until) WHERE status IN ('running', 'stuck');
-- Parked tasks of each limit, in order.
CREATE INDEX holdfast_task_gate ON holdfast_task (gate, priority, due_at)
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
