-- The ledger of idempotent calls: the request of each key, its runner and its outcome. The primary key has the key
-- before the operation, so that the steps of a task are found by its id.

CREATE TABLE holdfast_ledger (
    scope        text NOT NULL,
    key          text NOT NULL,
    operation    text NOT NULL,
    fingerprint  text NOT NULL,
    state        text NOT NULL CHECK (state IN ('in-progress', 'done', 'failed', 'abandoned')),
    fence        integer NOT NULL,
    owner        text NOT NULL,
    attempt      integer NOT NULL,
    begun_at     real NOT NULL,
    lease_until  real,
    ended_at     real,
    -- NULL for a step, which lives as long as its task
    expires_at   real,
    -- the answer null is stored as the text 'null'
    outcome_json text,
    PRIMARY KEY (scope, key, operation),
    CHECK ((state = 'in-progress') = (lease_until IS NOT NULL)),
    CHECK ((state = 'in-progress') = (ended_at IS NULL)),
    CHECK ((state IN ('done', 'failed')) = (outcome_json IS NOT NULL))
) STRICT;
-- Leases by expiry.
CREATE INDEX holdfast_ledger_lease ON holdfast_ledger (lease_until) WHERE state = 'in-progress';
-- Retention.
CREATE INDEX holdfast_ledger_expiry ON holdfast_ledger (expires_at) WHERE expires_at IS NOT NULL;
