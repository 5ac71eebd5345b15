-- Dependencies between tasks. An edge is settled when its parent has ended as the policy requires. An edge to a dead
-- parent stays open, because it prevents the revival of the child.

CREATE TABLE holdfast_edge (
    child_id   text NOT NULL REFERENCES holdfast_task (id) ON DELETE CASCADE,
    parent_id  text NOT NULL,
    policy     text NOT NULL CHECK (policy IN ('fail', 'ignore')),
    settled    integer NOT NULL DEFAULT 0,
    -- 1 until the parent is marked as having dependents
    unlinked   integer NOT NULL DEFAULT 0,
    PRIMARY KEY (child_id, parent_id)
) STRICT;
-- Children of one parent in order, so that a batch continues after the previous one.
CREATE INDEX holdfast_edge_parent ON holdfast_edge (parent_id, child_id);
-- Unlinked edges. Only PostgreSQL has them: with one writer an insert can always mark the parent.
CREATE INDEX holdfast_edge_unlinked ON holdfast_edge (parent_id, child_id) WHERE unlinked = 1;

-- Unfinished cascades: parents that ended with more dependents than one transaction settles. A sweeper continues
-- after `after_child`, the last child that was read, and deletes the row when all are settled.
CREATE TABLE holdfast_cascade (
    parent_id   text NOT NULL PRIMARY KEY,
    after_child text NOT NULL
) STRICT;

-- Children that another transaction held when their parent ended or was revived. With one writer there are none. The
-- table exists so that both dialects have the same statements.
CREATE TABLE holdfast_cascade_held (
    parent_id text NOT NULL,
    child_id  text NOT NULL,
    PRIMARY KEY (parent_id, child_id)
) STRICT;
