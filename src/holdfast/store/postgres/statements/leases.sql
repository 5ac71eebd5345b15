-- Named leases: a script locks the row of the resource, advances its clock, applies a rule and saves the row.

-- name: lock_lease
-- Creates the row on first use. Advances the clock, which never goes back.
-- index: holdfast_lease_pkey
-- returns: resource fence claim_id owner ttl_seconds grace_seconds granted_at expires_at free_at clock_at last_ticket
INSERT INTO holdfast_lease (resource, clock_at) VALUES (:resource::text, :now::float8)
ON CONFLICT (resource) DO UPDATE SET clock_at = greatest(holdfast_lease.clock_at, excluded.clock_at)
RETURNING holdfast_lease.resource, fence, claim_id, owner, ttl_seconds, grace_seconds, granted_at, expires_at, free_at,
    holdfast_lease.clock_at, last_ticket;

-- name: save_lease
-- index: holdfast_lease_pkey
UPDATE holdfast_lease SET fence = :fence::bigint, claim_id = :claim_id::text, owner = :owner::text, ttl_seconds = :ttl_seconds::float8,
    grace_seconds = :grace_seconds::float8, granted_at = :granted_at::float8, expires_at = :expires_at::float8, free_at = :free_at::float8,
    last_ticket = :last_ticket::bigint
WHERE resource = :resource::text;

-- name: guard_lease
-- The fence cannot change before the caller's transaction ends, because it is a key column (holdfast_lease_fence).
-- So no other claim is granted and the lease is not revoked meanwhile. The holder can still renew.
-- index: holdfast_lease_pkey
-- returns: fence claim_id
SELECT fence, claim_id FROM holdfast_lease WHERE resource = :resource::text FOR KEY SHARE;

-- name: lease_queue
-- The waiter of this claim, and the first live waiter.
-- index: holdfast_lease_waiter_claim, holdfast_lease_waiter_pkey
-- returns: ticket claim_id owner asked_at alive_until
SELECT ticket, claim_id, owner, asked_at, alive_until
FROM (SELECT * FROM holdfast_lease_waiter WHERE claim_id = :claim_id::text OFFSET 0) own
WHERE resource = :resource::text
UNION
SELECT * FROM (SELECT ticket, claim_id, owner, asked_at, alive_until FROM holdfast_lease_waiter
    WHERE resource = :resource::text AND alive_until > :now::float8 ORDER BY ticket LIMIT 1) head;

-- name: count_waiters
-- index: holdfast_lease_waiter_pkey
-- returns: n
SELECT count(*) AS n FROM holdfast_lease_waiter WHERE resource = :resource::text;

-- name: put_waiter
-- index: holdfast_lease_waiter_claim
INSERT INTO holdfast_lease_waiter (resource, ticket, claim_id, owner, asked_at, alive_until)
VALUES (:resource::text, :ticket::bigint, :claim_id::text, :owner::text, :now::float8, :alive_until::float8)
ON CONFLICT (claim_id, resource) DO UPDATE SET alive_until = excluded.alive_until;

-- name: drop_waiters
-- Removes the waiter of this claim and all dead waiters of the resource.
-- index: holdfast_lease_waiter_pkey
DELETE FROM holdfast_lease_waiter
WHERE resource = :resource::text AND (claim_id = :claim_id::text OR alive_until <= :now::float8);

-- name: ready_waiters
-- Of these claims, those that would be granted now. OFFSET 0 keeps the planner from merging the subqueries, so each
-- step is a lookup by key, whatever the statistics say.
-- index: holdfast_lease_waiter_claim, holdfast_lease_pkey, holdfast_lease_waiter_pkey
-- returns: claim_id
SELECT w.claim_id
FROM (SELECT claim_id FROM unnest(:claims::text[]) AS u(claim_id) LIMIT :limit::int) r
    CROSS JOIN LATERAL (SELECT * FROM holdfast_lease_waiter x WHERE x.claim_id = r.claim_id OFFSET 0) w
    CROSS JOIN LATERAL (SELECT * FROM holdfast_lease x WHERE x.resource = w.resource OFFSET 0) l
    CROSS JOIN LATERAL (SELECT min(x.ticket) AS ticket FROM holdfast_lease_waiter x
        WHERE x.resource = w.resource AND x.ticket < w.ticket AND x.alive_until > :now::float8) ahead
WHERE CASE WHEN l.claim_id IS NULL THEN l.free_at ELSE l.expires_at + l.grace_seconds END <= :now::float8
    AND ahead.ticket IS NULL;

-- name: holding_claims
-- The holders of these resources.
-- index: holdfast_lease_pkey
-- returns: claim_id fence
SELECT l.claim_id, l.fence
FROM (SELECT resource FROM unnest(:resources::text[]) AS u(resource) LIMIT :limit::int) r
    CROSS JOIN LATERAL (SELECT * FROM holdfast_lease x WHERE x.resource = r.resource OFFSET 0) l
WHERE l.claim_id IS NOT NULL;

-- name: leases_after
-- index: holdfast_lease_held
-- returns: resource fence claim_id owner ttl_seconds grace_seconds granted_at expires_at free_at clock_at last_ticket
SELECT resource, fence, claim_id, owner, ttl_seconds, grace_seconds, granted_at, expires_at, free_at, clock_at,
    last_ticket
FROM holdfast_lease WHERE claim_id IS NOT NULL AND resource > :after::text ORDER BY resource LIMIT :limit::int;

-- name: get_lease
-- index: holdfast_lease_pkey
-- returns: resource fence claim_id owner ttl_seconds grace_seconds granted_at expires_at free_at clock_at last_ticket
SELECT resource, fence, claim_id, owner, ttl_seconds, grace_seconds, granted_at, expires_at, free_at, clock_at,
    last_ticket
FROM holdfast_lease WHERE resource = :resource::text;

-- name: lease_waiters
-- index: holdfast_lease_waiter_pkey
-- returns: ticket claim_id owner asked_at alive_until
SELECT ticket, claim_id, owner, asked_at, alive_until FROM holdfast_lease_waiter
WHERE resource = :resource::text AND alive_until > :now::float8 ORDER BY ticket LIMIT :limit::int;

-- name: waiter_stats
-- Counts the live waiters of all resources.
-- index: holdfast_lease_waiter (read whole)
-- returns: n oldest_at
SELECT count(*) AS n, min(asked_at) AS oldest_at FROM holdfast_lease_waiter WHERE alive_until > :now::float8;

-- name: audit_lease
-- index: holdfast_lease_audit (appended to)
INSERT INTO holdfast_lease_audit (resource, at, action, actor, reason, fence, claim_id, owner)
VALUES (:resource::text, :now::float8, 'revoked', :actor::text, :reason::text, :fence::bigint, :claim_id::text, :owner::text);

-- name: lease_audit
-- Newest first.
-- index: holdfast_lease_audit_resource
-- returns: resource at action actor reason fence claim_id owner
SELECT resource, at, action, actor, reason, fence, claim_id, owner FROM holdfast_lease_audit
WHERE resource = :resource::text ORDER BY id DESC LIMIT :limit::int;

-- name: prune_lease_audit
-- Deletes expired rows among the oldest `limit` rows.
-- index: holdfast_lease_audit_pkey
DELETE FROM holdfast_lease_audit WHERE at < :before::float8
    AND id IN (SELECT id FROM holdfast_lease_audit ORDER BY id LIMIT :limit::int);
