-- What looks at hosts every few seconds reads of each: its state, and whether it can be reached. Rows of hosts are long: their
-- facts stand before these columns.
CREATE INDEX holdfast_host_standing ON holdfast_host (id, state, driver, unreachable_at);
