-- A parent that has ended while more tasks wait for it than one transaction settles. `after_child` is the last
-- child that was looked at; a sweeper goes on from there. The row goes when all are settled.

CREATE TABLE holdfast_cascade (
    parent_id   text NOT NULL PRIMARY KEY,
    after_child text NOT NULL
) STRICT;

-- Children of one parent in order, so that a batch starts where the last one ended.
DROP INDEX holdfast_edge_parent;
CREATE INDEX holdfast_edge_parent ON holdfast_edge (parent_id, child_id);
