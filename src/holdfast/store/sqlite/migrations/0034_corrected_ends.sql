-- Ends that the rollout of their job has counted, and that have changed since: an operator has taken over a late result.
CREATE INDEX holdfast_execution_changed ON holdfast_execution (job_id) WHERE tallied = 2;
