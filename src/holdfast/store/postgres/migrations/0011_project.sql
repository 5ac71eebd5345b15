-- Projects, and nodes with an identity.

CREATE TABLE holdfast_project (
    id              text PRIMARY KEY,
    -- the logical clock: it rises with every accepted write of a node
    clock           bigint NOT NULL DEFAULT 0,
    block_epoch     bigint NOT NULL DEFAULT 0,
    strategy        text NOT NULL DEFAULT 'merge',
    settings_json   text NOT NULL DEFAULT '{}',
    created_at      double precision NOT NULL,
    version         bigint NOT NULL DEFAULT 1
);
INSERT INTO holdfast_project (id, created_at) VALUES ('default', 0);

-- A process that runs an engine has no identity: registered_at is null.
ALTER TABLE holdfast_node ADD COLUMN project text NOT NULL DEFAULT 'default';
ALTER TABLE holdfast_node ADD COLUMN kind text NOT NULL DEFAULT 'worker';
ALTER TABLE holdfast_node ADD COLUMN capabilities_json text NOT NULL DEFAULT '[]';
ALTER TABLE holdfast_node ADD COLUMN labels_json text NOT NULL DEFAULT '{}';
ALTER TABLE holdfast_node ADD COLUMN incarnation bigint NOT NULL DEFAULT 1;
ALTER TABLE holdfast_node ADD COLUMN boots_json text NOT NULL DEFAULT '[]';
ALTER TABLE holdfast_node ADD COLUMN state text NOT NULL DEFAULT 'live';
ALTER TABLE holdfast_node ADD COLUMN registered_at double precision;
-- the token that the node authenticates with, and when it was made
ALTER TABLE holdfast_node ADD COLUMN token_id text;
ALTER TABLE holdfast_node ADD COLUMN token_at double precision;
ALTER TABLE holdfast_node ADD COLUMN clock bigint NOT NULL DEFAULT 0;
-- the position that the node has read the feed to
ALTER TABLE holdfast_node ADD COLUMN position text;
-- how far the clock of the node is ahead, as of its last message that named its time
ALTER TABLE holdfast_node ADD COLUMN skew_ms bigint;

-- Changes of queues and schedules are counted. A fire of a schedule is no change.
ALTER TABLE holdfast_queue ADD COLUMN version bigint NOT NULL DEFAULT 0;
ALTER TABLE holdfast_schedule ADD COLUMN project text NOT NULL DEFAULT 'default';
ALTER TABLE holdfast_schedule ADD COLUMN version bigint NOT NULL DEFAULT 1;

CREATE INDEX holdfast_node_project ON holdfast_node (project, id) WHERE registered_at IS NOT NULL;

-- The project whose nodes defined the type. Empty: nodes of the store, or of all projects.
ALTER TABLE holdfast_type ADD COLUMN project text NOT NULL DEFAULT '';
