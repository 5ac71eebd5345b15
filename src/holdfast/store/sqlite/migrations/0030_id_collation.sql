-- SQLite compares text by code point. On PostgreSQL this changes the collation of ids.
-- What each block holds of each job.
DROP INDEX holdfast_execution_held;
CREATE INDEX holdfast_execution_held ON holdfast_execution (block_id, job_id) WHERE block_id IS NOT NULL;
