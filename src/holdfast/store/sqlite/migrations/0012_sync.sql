-- The exchange with offline nodes: names of tasks, kept answers, conflicts, tombstones, log and figures.

-- The name that nodes use for a task, and what the exchange knows beyond the task row.
CREATE TABLE holdfast_sync_task (
    project           text NOT NULL,
    client_id         text NOT NULL,
    task_id           text NOT NULL,
    clock             integer NOT NULL,
    -- who wrote written_version; a newer version is of the server
    writer            text NOT NULL,
    writer_kind       text NOT NULL,
    written_version   integer NOT NULL,
    -- the hash of the request that created the task; empty when the server created it
    created_hash      text NOT NULL,
    -- stamps of metadata keys and labels, and the version that made the payload
    content_json      text NOT NULL,
    -- the latest claim by id
    claim_node        text,
    claim_incarnation integer,
    claim_fence       integer,
    claim_id          text,
    PRIMARY KEY (project, client_id)
) STRICT;
CREATE UNIQUE INDEX holdfast_sync_task_of ON holdfast_sync_task (task_id);
CREATE INDEX holdfast_sync_task_client ON holdfast_sync_task (client_id);
CREATE INDEX holdfast_sync_task_claim ON holdfast_sync_task (claim_node) WHERE claim_node IS NOT NULL;

-- Answers to items that have a mutation id.
CREATE TABLE holdfast_mutation (
    node        text NOT NULL,
    id          text NOT NULL,
    project     text NOT NULL,
    fingerprint text NOT NULL,
    answer_json text NOT NULL,
    at          real NOT NULL,
    PRIMARY KEY (node, id)
) STRICT;
CREATE INDEX holdfast_mutation_at ON holdfast_mutation (at);

CREATE TABLE holdfast_conflict (
    id             text PRIMARY KEY,
    project        text NOT NULL,
    task_id        text NOT NULL,
    client_id      text NOT NULL,
    kind           text NOT NULL,
    base_version   integer NOT NULL,
    server_version integer NOT NULL,
    server_json    text NOT NULL,
    client_json    text NOT NULL,
    node           text NOT NULL,
    mutation_id    text,
    state          text NOT NULL,
    resolution     text,
    settled_by     text,
    reason         text,
    at             real NOT NULL,
    settled_at     real,
    version        integer NOT NULL DEFAULT 1
) STRICT;
CREATE INDEX holdfast_conflict_project ON holdfast_conflict (project, id);
CREATE INDEX holdfast_conflict_open ON holdfast_conflict (project, id) WHERE state = 'open';
CREATE INDEX holdfast_conflict_task ON holdfast_conflict (task_id) WHERE state = 'open';
CREATE INDEX holdfast_conflict_settled ON holdfast_conflict (settled_at) WHERE state = 'settled';

-- What is left of a deleted task that nodes know.
CREATE TABLE holdfast_tombstone (
    project   text NOT NULL,
    client_id text NOT NULL,
    task_id   text NOT NULL,
    version   integer NOT NULL,
    at        real NOT NULL,
    reason    text NOT NULL,
    PRIMARY KEY (project, client_id)
) STRICT;
CREATE INDEX holdfast_tombstone_at ON holdfast_tombstone (at);

CREATE TABLE holdfast_sync_log (
    id           integer PRIMARY KEY AUTOINCREMENT,
    project      text NOT NULL,
    at           real NOT NULL,
    node         text NOT NULL,
    op           text NOT NULL,
    task_id      text,
    mutation_id  text,
    outcome      text NOT NULL,
    code         text,
    resolution   text,
    from_version integer,
    to_version   integer,
    clock        integer NOT NULL
) STRICT;
CREATE INDEX holdfast_sync_log_project ON holdfast_sync_log (project, id);
CREATE INDEX holdfast_sync_log_at ON holdfast_sync_log (at);

CREATE TABLE holdfast_tally (
    project text NOT NULL,
    name    text NOT NULL,
    n       integer NOT NULL,
    PRIMARY KEY (project, name)
) STRICT;

-- What was applied of each worker's messages. The row commits with the effects; a newer incarnation replaces it.
CREATE TABLE holdfast_receiver (
    node            text PRIMARY KEY,
    incarnation     integer NOT NULL,
    applied_through integer NOT NULL,
    -- the start that the incarnation was given to
    boot_id         text NOT NULL,
    at              real NOT NULL
) STRICT;

-- Runs by the name of their claim. Local workers do not name their claims.
CREATE INDEX holdfast_task_claim ON holdfast_task (claim_id) WHERE claim_id IS NOT NULL AND status IN ('running', 'stuck');
