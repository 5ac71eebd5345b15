-- Dependencies between tasks. An edge is settled when its parent has ended as the child needs it; an edge to a dead
-- parent stays open, so that the child knows what stands in the way of its revival.

CREATE TABLE holdfast_edge (
    child_id   text NOT NULL REFERENCES holdfast_task (id) ON DELETE CASCADE,
    parent_id  text NOT NULL,
    policy     text NOT NULL CHECK (policy IN ('fail', 'ignore')),
    settled    integer NOT NULL DEFAULT 0,
    -- 1 while the parent does not know of the edge
    unlinked   integer NOT NULL DEFAULT 0,
    PRIMARY KEY (child_id, parent_id)
) STRICT;
-- Children of one parent in order, so that a batch starts where the last one ended.
CREATE INDEX holdfast_edge_parent ON holdfast_edge (parent_id, child_id);
-- An edge is unlinked while its parent does not know of it: PostgreSQL only, the one writer of SQLite sees both.
CREATE INDEX holdfast_edge_unlinked ON holdfast_edge (parent_id, child_id) WHERE unlinked = 1;

-- A parent that has ended while more tasks wait for it than one transaction settles. `after_child` is the last
-- child that was looked at; a sweeper goes on from there. The row goes when all are settled.
CREATE TABLE holdfast_cascade (
    parent_id   text NOT NULL PRIMARY KEY,
    after_child text NOT NULL
) STRICT;

-- A child that another transaction held when its parent ended or came back. With one writer there is none; the
-- table exists so that the statements are the same.
CREATE TABLE holdfast_cascade_held (
    parent_id text NOT NULL,
    child_id  text NOT NULL,
    PRIMARY KEY (parent_id, child_id)
) STRICT;
