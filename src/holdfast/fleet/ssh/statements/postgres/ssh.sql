-- Hosts that are driven over SSH.

-- name: orphans
-- Held slots of hosts of the driver that no process has spoken for since a time. Those that were not tried for longest
-- come first.
-- index: holdfast_lease_held, holdfast_host (primary key), holdfast_agent (primary key)
-- returns: host_id
SELECT h.id AS host_id FROM holdfast_lease l
JOIN holdfast_host h ON h.id = substr(l.resource, 6)
JOIN holdfast_agent a ON a.host_id = h.id
WHERE l.claim_id IS NOT NULL AND l.resource >= :first::text AND l.resource < :last::text AND h.driver = 'ssh'
    AND a.seen_at < :before::double precision
ORDER BY coalesce(h.unreachable_at, 0), l.resource LIMIT :limit::integer;
