-- What is known of hosts beside their rows: agents and slots.

-- name: agents_of_hosts
-- index: holdfast_agent (primary key)
-- returns: {agent}
SELECT {agent} FROM holdfast_agent WHERE host_id IN (SELECT value FROM json_each(:ids));

-- name: node_states
-- The states of the agents of these hosts, as nodes.
-- index: holdfast_node (primary key)
-- returns: id state
SELECT id, state FROM holdfast_node WHERE id IN (SELECT value FROM json_each(:ids));

-- name: slots_of_hosts
-- The held slots among these resources.
-- index: holdfast_lease (primary key)
-- returns: resource claim_id fence granted_at
SELECT resource, claim_id, fence, granted_at FROM holdfast_lease
WHERE resource IN (SELECT value FROM json_each(:resources)) AND claim_id IS NOT NULL;
