-- What `holdfast doctor` looks at in the fleet.

-- name: silent_agents
-- Agents of hosts that were not removed, not heard of since then.
-- index: holdfast_agent_seen, holdfast_host (primary key)
-- returns: n seen_at
SELECT count(*) AS n, min(a.seen_at) AS seen_at FROM holdfast_agent a
WHERE a.seen_at < :since::float8 AND (SELECT h.state FROM holdfast_host h WHERE h.id = a.host_id) <> 'gone';

-- name: old_slots
-- Slots of hosts that an execution has had for long.
-- index: holdfast_lease_held
-- returns: n granted_at
SELECT count(*) AS n, min(granted_at) AS granted_at FROM holdfast_lease
WHERE claim_id IS NOT NULL AND resource >= :first::text AND resource < :last::text AND granted_at < :before::float8;
