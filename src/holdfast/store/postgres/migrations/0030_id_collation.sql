-- Ids are compared by code point. An index of another collation than that of a comparison is of no use to PostgreSQL, so
-- a join of tasks and executions read all executions. In a linguistic collation, which most databases have, '~' stands
-- before the digits: the ids of jobs are not less than `job_~`. The id of a project has the collation of the columns that
-- name it, and the claim id of a task is compared with parameters only.
ALTER TABLE holdfast_agent
    ALTER COLUMN boot_id TYPE text COLLATE "C",
    ALTER COLUMN host_id TYPE text COLLATE "C",
    ALTER COLUMN journal_id TYPE text COLLATE "C";
ALTER TABLE holdfast_approval
    ALTER COLUMN id TYPE text COLLATE "C",
    ALTER COLUMN job_id TYPE text COLLATE "C";
ALTER TABLE holdfast_audit
    ALTER COLUMN request_id TYPE text COLLATE "C";
ALTER TABLE holdfast_block
    ALTER COLUMN host_id TYPE text COLLATE "C",
    ALTER COLUMN id TYPE text COLLATE "C";
ALTER TABLE holdfast_conflict
    ALTER COLUMN client_id TYPE text COLLATE "C",
    ALTER COLUMN id TYPE text COLLATE "C",
    ALTER COLUMN mutation_id TYPE text COLLATE "C",
    ALTER COLUMN task_id TYPE text COLLATE "C";
ALTER TABLE holdfast_execution
    ALTER COLUMN block_id TYPE text COLLATE "C",
    ALTER COLUMN host_id TYPE text COLLATE "C",
    ALTER COLUMN job_id TYPE text COLLATE "C",
    ALTER COLUMN task_id TYPE text COLLATE "C";
ALTER TABLE holdfast_host
    ALTER COLUMN id TYPE text COLLATE "C";
ALTER TABLE holdfast_job
    ALTER COLUMN approval_id TYPE text COLLATE "C",
    ALTER COLUMN external_id TYPE text COLLATE "C",
    ALTER COLUMN id TYPE text COLLATE "C",
    ALTER COLUMN parent_id TYPE text COLLATE "C";
ALTER TABLE holdfast_lease
    ALTER COLUMN claim_id TYPE text COLLATE "C";
ALTER TABLE holdfast_lease_audit
    ALTER COLUMN claim_id TYPE text COLLATE "C";
ALTER TABLE holdfast_lease_waiter
    ALTER COLUMN claim_id TYPE text COLLATE "C";
ALTER TABLE holdfast_limit
    ALTER COLUMN name TYPE text COLLATE "C";
ALTER TABLE holdfast_mutation
    ALTER COLUMN id TYPE text COLLATE "C";
ALTER TABLE holdfast_node
    ALTER COLUMN id TYPE text COLLATE "C",
    ALTER COLUMN token_id TYPE text COLLATE "C";
ALTER TABLE holdfast_receiver
    ALTER COLUMN boot_id TYPE text COLLATE "C";
ALTER TABLE holdfast_sync_log
    ALTER COLUMN mutation_id TYPE text COLLATE "C",
    ALTER COLUMN task_id TYPE text COLLATE "C";
ALTER TABLE holdfast_sync_task
    ALTER COLUMN claim_id TYPE text COLLATE "C",
    ALTER COLUMN client_id TYPE text COLLATE "C",
    ALTER COLUMN task_id TYPE text COLLATE "C";
-- Gates name nodes and limits.
ALTER TABLE holdfast_task
    ALTER COLUMN gate TYPE text COLLATE "C";
ALTER TABLE holdfast_token
    ALTER COLUMN node_id TYPE text COLLATE "C";
ALTER TABLE holdfast_tombstone
    ALTER COLUMN client_id TYPE text COLLATE "C",
    ALTER COLUMN task_id TYPE text COLLATE "C";
ALTER TABLE holdfast_unique
    ALTER COLUMN task_id TYPE text COLLATE "C";
ALTER TABLE holdfast_vote
    ALTER COLUMN approval_id TYPE text COLLATE "C";
ALTER TABLE holdfast_webhook
    ALTER COLUMN id TYPE text COLLATE "C";
-- What each block holds of each job.
DROP INDEX holdfast_execution_held;
CREATE INDEX holdfast_execution_held ON holdfast_execution (block_id, job_id) WHERE block_id IS NOT NULL;
