-- Dependencies between tasks. An edge is settled when its parent has ended as the child needs it; an edge to a dead
-- parent stays open, so that the child knows what stands in the way of its revival.

CREATE TABLE holdfast_edge (
    child_id   text COLLATE "C" NOT NULL REFERENCES holdfast_task (id) ON DELETE CASCADE,
    parent_id  text COLLATE "C" NOT NULL,
    policy     text NOT NULL CHECK (policy IN ('fail', 'ignore')),
    settled    smallint NOT NULL DEFAULT 0,
    -- 1 while the parent does not know of the edge
    unlinked   smallint NOT NULL DEFAULT 0,
    PRIMARY KEY (child_id, parent_id)
);
-- Children of one parent in order, so that a batch starts where the last one ended.
CREATE INDEX holdfast_edge_parent ON holdfast_edge (parent_id, child_id);
-- An edge is unlinked while its parent does not know of it: the child was inserted by a transaction that must not
-- lock the parent, because it may stay open for long. scripts/edges.py links it.
CREATE INDEX holdfast_edge_unlinked ON holdfast_edge (parent_id, child_id) WHERE unlinked = 1;

-- A parent that has ended while more tasks wait for it than one transaction settles. `after_child` is the last
-- child that was looked at; a sweeper goes on from there. The row goes when all are settled.
CREATE TABLE holdfast_cascade (
    parent_id   text COLLATE "C" NOT NULL PRIMARY KEY,
    after_child text COLLATE "C" NOT NULL
);

-- A child that another transaction held when its parent ended or came back. A sweeper settles it when it is free
-- and removes the row. Written and removed only by transactions that have locked the parent.
CREATE TABLE holdfast_cascade_held (
    parent_id text COLLATE "C" NOT NULL,
    child_id  text COLLATE "C" NOT NULL,
    PRIMARY KEY (parent_id, child_id)
);
