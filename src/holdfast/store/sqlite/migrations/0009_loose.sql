-- An edge is unlinked while its parent does not know of it (PostgreSQL only: SQLite has one writer, which sees both).
ALTER TABLE holdfast_edge ADD COLUMN unlinked integer NOT NULL DEFAULT 0;
CREATE INDEX holdfast_edge_unlinked ON holdfast_edge (parent_id, child_id) WHERE unlinked = 1;

-- When the task was made whose rule is in force: the youngest says what the limit is.
ALTER TABLE holdfast_limit ADD COLUMN rule_at real NOT NULL DEFAULT 0;
