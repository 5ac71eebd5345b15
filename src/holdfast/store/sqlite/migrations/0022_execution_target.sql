-- An execution is found by its job and its host. An index by host alone had one page for each host, so a new
-- job of 100 hosts wrote 100 pages of it; this one writes a few. It is one text, so that no plan takes it for the
-- executions of a job, which holdfast_execution_job has in order.

DROP INDEX holdfast_execution_host;
CREATE UNIQUE INDEX holdfast_execution_target ON holdfast_execution ((job_id || '/' || host_id));
