-- Marks of transactions that write and have no feed record. A client whose COMMIT was not answered finds out by its
-- mark whether the transaction was committed. Each is kept for an hour.
CREATE TABLE holdfast_commit (id bigint PRIMARY KEY) WITH (autovacuum_vacuum_scale_factor = 0.02);
