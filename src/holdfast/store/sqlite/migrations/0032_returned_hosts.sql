-- When a host that had been removed was added again: it may be another machine since. NULL: it never was.
ALTER TABLE holdfast_host ADD COLUMN returned_at real;
-- What looks at the hosts of a job reads this too.
DROP INDEX holdfast_host_standing;
CREATE INDEX holdfast_host_standing ON holdfast_host (id, state, driver, unreachable_at, returned_at);
