-- The tables of the engine. Times are epoch seconds of the store's clock; texts ending in _json are JSON.

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
    attempts        integer NOT NULL,
    max_attempts    integer NOT NULL,
    deaths          integer NOT NULL,
    version         integer NOT NULL,
    fence           integer NOT NULL,
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
    -- ids of the feed records that mention it, newest last
    history         text NOT NULL DEFAULT '',
    CHECK ((status = 'running') = (lease_until IS NOT NULL)),
    CHECK ((status IN ('completed', 'failed', 'aborted')) = (finished_at IS NOT NULL))
) STRICT;

-- What may be claimed, in order; one range scan for each queue and priority.
CREATE INDEX holdfast_task_ready ON holdfast_task (queue, priority, due_at)
    WHERE status = 'queued' AND gate IS NULL;
-- Who runs until when.
CREATE INDEX holdfast_task_lease ON holdfast_task (lease_until) WHERE status = 'running';
-- Who waits at a limit, in order.
CREATE INDEX holdfast_task_gate ON holdfast_task (gate, priority, due_at)
    WHERE status = 'queued' AND gate IS NOT NULL;
-- Retention.
CREATE INDEX holdfast_task_finished ON holdfast_task (finished_at) WHERE finished_at IS NOT NULL;
-- Dead letters, by group.
CREATE INDEX holdfast_task_dead ON holdfast_task (fingerprint, finished_at) WHERE status = 'failed';
-- What waits for something else than a worker.
CREATE INDEX holdfast_task_held ON holdfast_task (id) WHERE status IN ('blocked', 'paused', 'stuck');
CREATE UNIQUE INDEX holdfast_task_key ON holdfast_task (type, idempotency_key)
    WHERE idempotency_key IS NOT NULL;

CREATE TABLE holdfast_edge (
    child_id   text NOT NULL REFERENCES holdfast_task (id) ON DELETE CASCADE,
    parent_id  text NOT NULL,
    policy     text NOT NULL CHECK (policy IN ('fail', 'ignore')),
    settled    integer NOT NULL DEFAULT 0,
    PRIMARY KEY (child_id, parent_id)
) STRICT;
CREATE INDEX holdfast_edge_parent ON holdfast_edge (parent_id);

-- One record for each transaction that changed something: its facts, and how they move the counters.
-- One writer at a time, so offsets are given at once and in commit order.
CREATE TABLE holdfast_feed (
    first_offset integer PRIMARY KEY,
    events_count  integer NOT NULL,
    at           real NOT NULL,
    events_json   text NOT NULL,
    deltas_json  text NOT NULL
) STRICT;

CREATE TABLE holdfast_feed_head (
    one             integer PRIMARY KEY DEFAULT 1 CHECK (one = 1),
    epoch           text NOT NULL,
    oldest          integer NOT NULL,
    counted_through integer NOT NULL
) STRICT;
INSERT INTO holdfast_feed_head (epoch, oldest, counted_through)
VALUES (lower(hex(randomblob(4))), 1, 0);

CREATE TABLE holdfast_counter (
    queue    text NOT NULL,
    type     text NOT NULL,
    priority integer NOT NULL,
    status   text NOT NULL,
    n        integer NOT NULL,
    PRIMARY KEY (queue, type, priority, status)
) STRICT;

CREATE TABLE holdfast_limit (
    name       text PRIMARY KEY,
    rule_json  text NOT NULL,
    running    integer NOT NULL DEFAULT 0 CHECK (running >= 0),
    parked     integer NOT NULL DEFAULT 0 CHECK (parked >= 0),
    full_until real NOT NULL DEFAULT 0,
    opens_at   real
) STRICT;
CREATE INDEX holdfast_limit_opens ON holdfast_limit (opens_at) WHERE opens_at IS NOT NULL;

CREATE TABLE holdfast_queue (
    name      text PRIMARY KEY,
    paused_at real,
    paused_by text,
    reason    text
) STRICT;

CREATE TABLE holdfast_type (
    name          text PRIMARY KEY,
    queue         text NOT NULL,
    config_json   text NOT NULL,
    registered_at real NOT NULL,
    registered_by text NOT NULL
) STRICT;

CREATE TABLE holdfast_node (
    id         text PRIMARY KEY,
    started_at real NOT NULL,
    seen_at    real NOT NULL,
    info_json  text NOT NULL
) STRICT;

CREATE TABLE holdfast_schedule (
    name         text PRIMARY KEY,
    type         text NOT NULL,
    queue        text NOT NULL,
    spec         text NOT NULL,
    timezone     text NOT NULL,
    payload_json text NOT NULL,
    priority     integer NOT NULL,
    next_at      real NOT NULL,
    fired_at     real,
    paused       integer NOT NULL DEFAULT 0
) STRICT;
