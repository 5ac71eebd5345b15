-- Marks of transactions that write but have no feed record. A client that lost the answer to its COMMIT checks the
-- mark to learn whether the transaction was committed. A mark is retained for an hour.
CREATE TABLE holdfast_commit (id bigint PRIMARY KEY) WITH (autovacuum_vacuum_scale_factor = 0.02);
