-- The tables of the engine. Times are epoch seconds of the store's clock; texts ending in _json are JSON.

CREATE TABLE holdfast_task (
    id              text COLLATE "C" PRIMARY KEY,
    type            text NOT NULL,
    queue           text NOT NULL,
    priority        smallint NOT NULL CHECK (priority BETWEEN 0 AND 3),
    status          text NOT NULL CHECK (status IN (
                        'blocked', 'queued', 'running', 'paused', 'stuck', 'completed', 'failed', 'aborted')),
    payload_json    text NOT NULL,
    metadata_json   text,
    options_json    text NOT NULL,
    attempts        integer NOT NULL,
    max_attempts    integer NOT NULL,
    deaths          integer NOT NULL,
    version         bigint NOT NULL,
    fence           bigint NOT NULL,
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
    -- place within the batch that it was enqueued with: breaks ties of due_at, so that FIFO holds
    nth             integer NOT NULL DEFAULT 0,
    -- ids of the feed records that mention it, newest last
    history         text NOT NULL DEFAULT '',
    CHECK ((status = 'running') = (lease_until IS NOT NULL)),
    CHECK ((status IN ('completed', 'failed', 'aborted')) = (finished_at IS NOT NULL))
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0,
        autovacuum_analyze_scale_factor = 0.05);

-- What may be claimed, in order; one range scan for each queue and priority.
CREATE INDEX holdfast_task_ready ON holdfast_task (queue, priority, due_at, nth)
    WHERE status = 'queued' AND gate IS NULL;
-- Who runs until when.
CREATE INDEX holdfast_task_lease ON holdfast_task (lease_until) WHERE status = 'running';
-- Who waits at a limit, in order.
CREATE INDEX holdfast_task_gate ON holdfast_task (gate, priority, due_at, nth)
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
    child_id   text COLLATE "C" NOT NULL REFERENCES holdfast_task (id) ON DELETE CASCADE,
    parent_id  text COLLATE "C" NOT NULL,
    policy     text NOT NULL CHECK (policy IN ('fail', 'ignore')),
    settled    smallint NOT NULL DEFAULT 0,
    PRIMARY KEY (child_id, parent_id)
);
CREATE INDEX holdfast_edge_parent ON holdfast_edge (parent_id);

-- One record for each transaction that changed something: its facts, and how they move the counters.
-- first_offset is given when the record is first read, in an order that respects commits (see feed.sql).
CREATE TABLE holdfast_feed (
    id           bigint PRIMARY KEY,
    ord          bigint GENERATED ALWAYS AS IDENTITY,
    xid          xid8 NOT NULL DEFAULT pg_current_xact_id(),
    first_offset bigint,
    events_count  integer NOT NULL,
    at           double precision NOT NULL,
    events_json   text NOT NULL,
    deltas_json  text NOT NULL
);
CREATE UNIQUE INDEX holdfast_feed_offset ON holdfast_feed (first_offset) WHERE first_offset IS NOT NULL;
CREATE INDEX holdfast_feed_unread ON holdfast_feed (xid) WHERE first_offset IS NULL;

CREATE TABLE holdfast_feed_head (
    one             boolean PRIMARY KEY DEFAULT true CHECK (one),
    epoch           text NOT NULL,
    head            bigint NOT NULL,
    oldest          bigint NOT NULL,
    scan_xid        xid8 NOT NULL,
    counted_through bigint NOT NULL
);
INSERT INTO holdfast_feed_head (epoch, head, oldest, scan_xid, counted_through)
VALUES (substr(md5(random()::text || clock_timestamp()::text), 1, 8), 0, 1, '0'::xid8, 0);

CREATE TABLE holdfast_counter (
    queue    text NOT NULL,
    type     text NOT NULL,
    priority smallint NOT NULL,
    status   text NOT NULL,
    n        bigint NOT NULL,
    PRIMARY KEY (queue, type, priority, status)
);

CREATE TABLE holdfast_limit (
    name       text PRIMARY KEY,
    rule_json  text NOT NULL,
    running    integer NOT NULL DEFAULT 0 CHECK (running >= 0),
    parked     integer NOT NULL DEFAULT 0 CHECK (parked >= 0),
    full_until double precision NOT NULL DEFAULT 0,
    opens_at   double precision
);
CREATE INDEX holdfast_limit_opens ON holdfast_limit (opens_at) WHERE opens_at IS NOT NULL;

CREATE TABLE holdfast_queue (
    name      text PRIMARY KEY,
    paused_at double precision,
    paused_by text,
    reason    text
);

CREATE TABLE holdfast_type (
    name          text PRIMARY KEY,
    queue         text NOT NULL,
    config_json   text NOT NULL,
    registered_at double precision NOT NULL,
    registered_by text NOT NULL
);

CREATE TABLE holdfast_node (
    id         text PRIMARY KEY,
    started_at double precision NOT NULL,
    seen_at    double precision NOT NULL,
    info_json  text NOT NULL
);

CREATE TABLE holdfast_schedule (
    name         text PRIMARY KEY,
    type         text NOT NULL,
    queue        text NOT NULL,
    spec         text NOT NULL,
    timezone     text NOT NULL,
    payload_json text NOT NULL,
    priority     smallint NOT NULL,
    next_at      double precision NOT NULL,
    fired_at     double precision,
    paused       smallint NOT NULL DEFAULT 0
);
