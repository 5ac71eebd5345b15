-- Named leases. Times are seconds of the clock of the lease (clock_at), which never goes back.

-- One row for each resource that was ever locked. Rows are never deleted, so that a fence never restarts.
CREATE TABLE holdfast_lease (
    resource      text COLLATE "C" PRIMARY KEY,
    fence         bigint NOT NULL DEFAULT 0,
    claim_id      text,
    owner         text NOT NULL DEFAULT '',
    ttl_seconds   double precision NOT NULL DEFAULT 0,
    grace_seconds double precision NOT NULL DEFAULT 0,
    granted_at    double precision NOT NULL DEFAULT 0,
    expires_at    double precision NOT NULL DEFAULT 0,
    free_at       double precision NOT NULL DEFAULT 0,
    clock_at      double precision NOT NULL,
    last_ticket   bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
-- Held leases.
CREATE INDEX holdfast_lease_held ON holdfast_lease (resource) WHERE claim_id IS NOT NULL;
-- Makes the fence a key column, as if a foreign key referred to it: a statement that changes it waits for every FOR
-- KEY SHARE on the row. A renewal changes no key column and does not wait. No query uses the index.
CREATE UNIQUE INDEX holdfast_lease_fence ON holdfast_lease (fence, resource);

-- Waiters in the order of their tickets. A waiter is dead after alive_until.
CREATE TABLE holdfast_lease_waiter (
    resource    text COLLATE "C" NOT NULL,
    ticket      bigint NOT NULL,
    claim_id    text NOT NULL,
    owner       text NOT NULL,
    asked_at    double precision NOT NULL,
    alive_until double precision NOT NULL,
    PRIMARY KEY (resource, ticket)
);
CREATE UNIQUE INDEX holdfast_lease_waiter_claim ON holdfast_lease_waiter (claim_id, resource);

-- Audit of operators' changes.
CREATE TABLE holdfast_lease_audit (
    id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    resource text COLLATE "C" NOT NULL,
    at       double precision NOT NULL,
    action   text NOT NULL CHECK (action IN ('revoked')),
    actor    text NOT NULL,
    reason   text NOT NULL,
    fence    bigint NOT NULL,
    claim_id text NOT NULL,
    owner    text NOT NULL
);
CREATE INDEX holdfast_lease_audit_resource ON holdfast_lease_audit (resource, id);
