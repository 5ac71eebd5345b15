-- An edge is unlinked while its parent does not know of it: the child came in by a transaction that must not lock
-- the parent, because it may stay open for long. Who finds a unlinked edge ties it (scripts/edges.py).
ALTER TABLE holdfast_edge ADD COLUMN unlinked smallint NOT NULL DEFAULT 0;
CREATE INDEX holdfast_edge_unlinked ON holdfast_edge (parent_id, child_id) WHERE unlinked = 1;

-- When the task was made whose rule is in force: the youngest says what the limit is.
ALTER TABLE holdfast_limit ADD COLUMN rule_at double precision NOT NULL DEFAULT 0;
