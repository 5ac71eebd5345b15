-- Named leases: a script locks the row of the resource, advances its clock, applies a rule and saves the row.

-- name: lock_lease
-- Creates the row on first use. Advances the clock, which never goes back.
-- index: holdfast_lease (primary key)
-- returns: resource fence claim_id owner ttl_seconds grace_seconds granted_at expires_at free_at clock_at last_ticket
INSERT INTO holdfast_lease (resource, clock_at) VALUES (:resource, :now)
ON CONFLICT (resource) DO UPDATE SET clock_at = max(clock_at, excluded.clock_at)
RETURNING resource, fence, claim_id, owner, ttl_seconds, grace_seconds, granted_at, expires_at, free_at, clock_at,
    last_ticket;

-- name: save_lease
-- index: holdfast_lease (primary key)
UPDATE holdfast_lease SET fence = :fence, claim_id = :claim_id, owner = :owner, ttl_seconds = :ttl_seconds,
    grace_seconds = :grace_seconds, granted_at = :granted_at, expires_at = :expires_at, free_at = :free_at,
    last_ticket = :last_ticket
WHERE resource = :resource;

-- name: guard_lease
-- No other claim is granted before the caller's transaction ends: if that transaction writes, it is the only writer;
-- if its snapshot is stale, its write is refused.
-- index: holdfast_lease (primary key)
-- returns: fence claim_id
SELECT fence, claim_id FROM holdfast_lease WHERE resource = :resource;

-- name: lease_queue
-- The waiter of this claim, and the first live waiter.
-- index: holdfast_lease_waiter_claim, holdfast_lease_waiter (primary key)
-- returns: ticket claim_id owner asked_at alive_until
SELECT ticket, claim_id, owner, asked_at, alive_until FROM holdfast_lease_waiter
WHERE claim_id = :claim_id AND resource = :resource
UNION
SELECT * FROM (SELECT ticket, claim_id, owner, asked_at, alive_until FROM holdfast_lease_waiter
    WHERE resource = :resource AND alive_until > :now ORDER BY ticket LIMIT 1);

-- name: count_waiters
-- index: holdfast_lease_waiter (primary key)
-- returns: n
SELECT count(*) AS n FROM holdfast_lease_waiter WHERE resource = :resource;

-- name: put_waiter
-- index: holdfast_lease_waiter_claim
INSERT INTO holdfast_lease_waiter (resource, ticket, claim_id, owner, asked_at, alive_until)
VALUES (:resource, :ticket, :claim_id, :owner, :now, :alive_until)
ON CONFLICT (claim_id, resource) DO UPDATE SET alive_until = excluded.alive_until;

-- name: drop_waiters
-- Removes the waiter of this claim and all dead waiters of the resource.
-- index: holdfast_lease_waiter (primary key)
DELETE FROM holdfast_lease_waiter
WHERE resource = :resource AND (claim_id = :claim_id OR alive_until <= :now);

-- name: ready_waiters
-- Of these claims, those that would be granted now.
-- index: holdfast_lease_waiter_claim, holdfast_lease (primary key), holdfast_lease_waiter (primary key)
-- returns: claim_id
SELECT w.claim_id
FROM (SELECT value AS claim_id FROM json_each(:claims) LIMIT :limit) r
    JOIN holdfast_lease_waiter w ON w.claim_id = r.claim_id
    JOIN holdfast_lease l ON l.resource = w.resource
WHERE CASE WHEN l.claim_id IS NULL THEN l.free_at ELSE l.expires_at + l.grace_seconds END <= :now
    AND NOT EXISTS (SELECT 1 FROM holdfast_lease_waiter a
        WHERE a.resource = w.resource AND a.ticket < w.ticket AND a.alive_until > :now);

-- name: holding_claims
-- The holders of these resources.
-- index: holdfast_lease (primary key)
-- returns: claim_id fence
SELECT l.claim_id, l.fence
FROM (SELECT value AS resource FROM json_each(:resources) LIMIT :limit) r
    CROSS JOIN holdfast_lease l ON l.resource = r.resource
WHERE +l.claim_id IS NOT NULL;

-- name: leases_after
-- index: holdfast_lease_held
-- returns: resource fence claim_id owner ttl_seconds grace_seconds granted_at expires_at free_at clock_at last_ticket
SELECT resource, fence, claim_id, owner, ttl_seconds, grace_seconds, granted_at, expires_at, free_at, clock_at,
    last_ticket
FROM holdfast_lease WHERE claim_id IS NOT NULL AND resource > :after ORDER BY resource LIMIT :limit;

-- name: get_lease
-- index: holdfast_lease (primary key)
-- returns: resource fence claim_id owner ttl_seconds grace_seconds granted_at expires_at free_at clock_at last_ticket
SELECT resource, fence, claim_id, owner, ttl_seconds, grace_seconds, granted_at, expires_at, free_at, clock_at,
    last_ticket
FROM holdfast_lease WHERE resource = :resource;

-- name: lease_waiters
-- index: holdfast_lease_waiter (primary key)
-- returns: ticket claim_id owner asked_at alive_until
SELECT ticket, claim_id, owner, asked_at, alive_until FROM holdfast_lease_waiter
WHERE resource = :resource AND alive_until > :now ORDER BY ticket LIMIT :limit;

-- name: waiter_stats
-- Counts the live waiters of all resources.
-- index: holdfast_lease_waiter (read whole)
-- returns: n oldest_at
SELECT count(*) AS n, min(asked_at) AS oldest_at FROM holdfast_lease_waiter WHERE alive_until > :now;

-- name: audit_lease
-- index: holdfast_lease_audit (appended to)
INSERT INTO holdfast_lease_audit (resource, at, action, actor, reason, fence, claim_id, owner)
VALUES (:resource, :now, 'revoked', :actor, :reason, :fence, :claim_id, :owner);

-- name: lease_audit
-- Newest first.
-- index: holdfast_lease_audit_resource
-- returns: resource at action actor reason fence claim_id owner
SELECT resource, at, action, actor, reason, fence, claim_id, owner FROM holdfast_lease_audit
WHERE resource = :resource ORDER BY id DESC LIMIT :limit;

-- name: prune_lease_audit
-- Deletes expired rows among the oldest `limit` rows.
-- index: holdfast_lease_audit (primary key)
DELETE FROM holdfast_lease_audit WHERE at < :before
    AND id IN (SELECT id FROM holdfast_lease_audit ORDER BY id LIMIT :limit);
