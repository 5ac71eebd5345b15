-- Named leases. Times are seconds of the clock of the lease (clock_at), which never goes back.

-- One row for each resource that was ever locked. Rows are never deleted, so that a fence never restarts.
CREATE TABLE holdfast_lease (
    resource      text PRIMARY KEY,
    fence         integer NOT NULL DEFAULT 0,
    claim_id      text,
    owner         text NOT NULL DEFAULT '',
    ttl_seconds   real NOT NULL DEFAULT 0,
    grace_seconds real NOT NULL DEFAULT 0,
    granted_at    real NOT NULL DEFAULT 0,
    expires_at    real NOT NULL DEFAULT 0,
    free_at       real NOT NULL DEFAULT 0,
    clock_at      real NOT NULL,
    last_ticket   integer NOT NULL DEFAULT 0
) STRICT;
-- Held leases.
CREATE INDEX holdfast_lease_held ON holdfast_lease (resource) WHERE claim_id IS NOT NULL;

-- Waiters in the order of their tickets. A waiter is dead after alive_until.
CREATE TABLE holdfast_lease_waiter (
    resource    text NOT NULL,
    ticket      integer NOT NULL,
    claim_id    text NOT NULL,
    owner       text NOT NULL,
    asked_at    real NOT NULL,
    alive_until real NOT NULL,
    PRIMARY KEY (resource, ticket)
) STRICT;
CREATE UNIQUE INDEX holdfast_lease_waiter_claim ON holdfast_lease_waiter (claim_id, resource);

-- Audit of operators' changes.
CREATE TABLE holdfast_lease_audit (
    id       integer PRIMARY KEY AUTOINCREMENT,
    resource text NOT NULL,
    at       real NOT NULL,
    action   text NOT NULL CHECK (action IN ('revoked')),
    actor    text NOT NULL,
    reason   text NOT NULL,
    fence    integer NOT NULL,
    claim_id text NOT NULL,
    owner    text NOT NULL
) STRICT;
CREATE INDEX holdfast_lease_audit_resource ON holdfast_lease_audit (resource, id);
