-- What is known of hosts beside their rows: agents and slots.

-- name: agents_of_hosts
-- index: holdfast_agent_pkey
-- returns: {agent}
SELECT {agent} FROM holdfast_agent WHERE host_id = ANY(:ids::text[]);

-- name: node_states
-- The states of the agents of these hosts, as nodes.
-- index: holdfast_node_pkey
-- returns: id state
SELECT id, state FROM holdfast_node WHERE id = ANY(:ids::text[]);

-- name: slots_of_hosts
-- The held slots among these resources.
-- index: holdfast_lease_pkey
-- returns: resource claim_id fence granted_at
SELECT resource, claim_id, fence, granted_at FROM holdfast_lease
WHERE resource = ANY(:resources::text[]) AND claim_id IS NOT NULL;
