-- Dependencies between tasks. An edge is settled when its parent has ended as the policy requires. An edge to a dead
-- parent stays open, because it prevents the revival of the child.

CREATE TABLE holdfast_edge (
    child_id   text COLLATE "C" NOT NULL REFERENCES holdfast_task (id) ON DELETE CASCADE,
    parent_id  text COLLATE "C" NOT NULL,
    policy     text NOT NULL CHECK (policy IN ('fail', 'ignore')),
    settled    smallint NOT NULL DEFAULT 0,
    -- 1 until the parent is marked as having dependents
    unlinked   smallint NOT NULL DEFAULT 0,
    PRIMARY KEY (child_id, parent_id)
);
-- Children of one parent in order, so that a batch continues after the previous one.
CREATE INDEX holdfast_edge_parent ON holdfast_edge (parent_id, child_id);
-- Unlinked edges. A transaction that may stay open for long must not lock the parent, so it inserts the edge
-- unlinked. scripts/edges.py links it later.
CREATE INDEX holdfast_edge_unlinked ON holdfast_edge (parent_id, child_id) WHERE unlinked = 1;

-- Unfinished cascades: parents that ended with more dependents than one transaction settles. A sweeper continues
-- after `after_child`, the last child that was read, and deletes the row when all are settled.
CREATE TABLE holdfast_cascade (
    parent_id   text COLLATE "C" NOT NULL PRIMARY KEY,
    after_child text COLLATE "C" NOT NULL
);

-- Children that another transaction held when their parent ended or was revived. A sweeper settles them when they
-- are free and deletes the row. Only transactions that have locked the parent write this table.
CREATE TABLE holdfast_cascade_held (
    parent_id text COLLATE "C" NOT NULL,
    child_id  text COLLATE "C" NOT NULL,
    PRIMARY KEY (parent_id, child_id)
);
