-- Retention by type: a task whose type has its own keeps it, and is not pruned by the setting of the queue. Dead
-- letters are: they have a retention of their own.
ALTER TABLE holdfast_task ADD COLUMN keep_done_seconds real;
DROP INDEX holdfast_task_finished;
CREATE INDEX holdfast_task_finished ON holdfast_task (finished_at)
    WHERE finished_at IS NOT NULL AND type <> 'fleet.run' AND (keep_done_seconds IS NULL OR status = 'failed');
-- Such tasks, by the time until which they are kept.
CREATE INDEX holdfast_task_kept ON holdfast_task ((finished_at + keep_done_seconds))
    WHERE keep_done_seconds IS NOT NULL AND status IN ('completed', 'aborted');
