-- Hosts and groups.

-- name: get_hosts
-- index: holdfast_host (primary key)
-- returns: {host}
SELECT {host} FROM holdfast_host WHERE id IN (SELECT value FROM json_each(:ids)) ORDER BY id;

-- name: get_hosts_without_facts
-- index: holdfast_host (primary key)
-- returns: {host}
SELECT id, project, name, driver, address, labels_json, :no_facts AS facts_json, state, created_at, updated_at, version,
    unreachable_at, returned_at
FROM holdfast_host WHERE id IN (SELECT value FROM json_each(:ids)) ORDER BY id;

-- name: hosts_named
-- index: holdfast_host_name
-- returns: {host}
SELECT {host} FROM holdfast_host WHERE project = :project AND name IN (SELECT value FROM json_each(:names)) ORDER BY name;

-- name: lock_hosts
-- By id, in the order in which all transactions lock hosts.
-- index: holdfast_host (primary key)
-- returns: {host}
SELECT {host} FROM holdfast_host WHERE id IN (SELECT value FROM json_each(:ids)) ORDER BY id;

-- name: list_hosts
-- A page by name. Hosts that were removed are in it only if their state is asked for.
-- index: holdfast_host_name
-- returns: {host}
SELECT {host} FROM holdfast_host
WHERE project = :project AND name > :after
  AND (state = :state OR (:state IS NULL AND state <> 'gone'))
  AND (:part IS NULL OR instr(name, :part) > 0)
ORDER BY name LIMIT :limit;

-- name: hosts_without_facts
-- All hosts of a project that were not removed, in pages by name.
-- index: holdfast_host_name
-- returns: {host}
SELECT id, project, name, driver, address, labels_json, :no_facts AS facts_json, state, created_at, updated_at, version,
    unreachable_at, returned_at
FROM holdfast_host WHERE project = :project AND name > :after AND state <> 'gone'
ORDER BY name LIMIT :limit;

-- name: count_hosts
-- index: holdfast_host_name
-- returns: n
SELECT count(*) AS n FROM holdfast_host WHERE project = :project AND state <> 'gone';

-- name: host_figures
-- Hosts that were not removed, by state and by whether they answer. A host over SSH does unless the last
-- attempt failed a short while ago.
-- index: holdfast_host_standing, holdfast_agent (primary key)
-- returns: state live n
SELECT h.state, CASE WHEN {host_answers} THEN 1 ELSE 0 END AS live, count(*) AS n
FROM holdfast_host h LEFT JOIN holdfast_agent a ON a.host_id = h.id
WHERE h.state <> 'gone' GROUP BY 1, 2;

-- name: add_hosts
-- A name that another transaction has added meanwhile is left out.
-- index: holdfast_host_name
-- returns: id
INSERT INTO holdfast_host ({host}) SELECT {host:r} FROM {rows: @host} WHERE true
ON CONFLICT DO NOTHING RETURNING id;

-- name: write_hosts
-- Facts are written apart, by the agent.
-- index: holdfast_host (primary key)
UPDATE holdfast_host AS h SET driver = r.driver, address = r.address, labels_json = r.labels_json, state = r.state,
    updated_at = r.updated_at, version = r.version, returned_at = r.returned_at
FROM {rows: @host}
WHERE h.id = r.id;

-- name: write_facts
-- index: holdfast_host (primary key)
UPDATE holdfast_host AS h SET facts_json = r.facts_json FROM {rows: id text, facts_json text}
WHERE h.id = r.id AND h.facts_json <> r.facts_json;

-- name: end_idle_agents
-- The agents of hosts whose slots are free. One that runs a command may report its end.
-- index: holdfast_agent (primary key), holdfast_lease (primary key)
-- returns: host_id
DELETE FROM holdfast_agent AS a WHERE a.host_id IN (SELECT value FROM json_each(:ids)) AND NOT EXISTS (
    SELECT 1 FROM holdfast_lease l WHERE l.resource = :prefix || a.host_id AND l.claim_id IS NOT NULL)
RETURNING host_id;

-- name: end_agents
-- index: holdfast_agent (primary key)
-- returns: host_id
DELETE FROM holdfast_agent WHERE host_id IN (SELECT value FROM json_each(:ids)) RETURNING host_id;

-- name: revoke_credentials
-- index: holdfast_token_node
UPDATE holdfast_token SET revoked_at = :now
WHERE node_id IN (SELECT value FROM json_each(:ids)) AND kind = 'agent' AND revoked_at IS NULL;

-- name: raise_block_epoch
-- What blocks say about hosts has changed: agents fetch them again.
-- index: holdfast_project (primary key)
-- returns: block_epoch
INSERT INTO holdfast_project (id, created_at, block_epoch) VALUES (:id, :now, 1)
ON CONFLICT (id) DO UPDATE SET block_epoch = holdfast_project.block_epoch + 1
RETURNING block_epoch;

-- name: has_selector_blocks
-- index: holdfast_block_active
-- returns: id
SELECT id FROM holdfast_block WHERE project = :project AND lifted_at IS NULL AND selector IS NOT NULL LIMIT 1;

-- name: block_epochs
-- A project without a row has none.
-- index: holdfast_project (primary key)
-- returns: id block_epoch
SELECT id, block_epoch FROM holdfast_project WHERE id IN (SELECT value FROM json_each(:ids));

-- name: add_local_agents
-- They have no credential, and name one that does not exist: their agents run in a process of the store.
-- index: holdfast_node (primary key)
INSERT INTO holdfast_node (id, project, kind, state, incarnation, started_at, registered_at, seen_at, info_json,
    labels_json, token_id, token_at)
SELECT r.id, r.project, 'agent', 'live', 1, :now, :now, :now, :info_json, r.labels_json, 'local', :now
FROM {rows: id text, project text, labels_json text} WHERE true
ON CONFLICT (id) DO NOTHING;

-- name: hold_project
-- Locks the row of a project, so that what its holders read and write happens one after the other.
-- index: holdfast_project (primary key)
INSERT INTO holdfast_project (id, created_at) VALUES (:id, :now)
ON CONFLICT (id) DO UPDATE SET version = holdfast_project.version;

-- name: silent_hosts
-- A page by name of active hosts whose agents were not heard of since a time.
-- index: holdfast_agent_seen
-- returns: {host}
SELECT {host} FROM holdfast_host
WHERE project = :project AND name > :after AND state = 'active'
  AND id IN (SELECT host_id FROM holdfast_agent WHERE seen_at < :since)
ORDER BY name LIMIT :limit;

-- name: note_reach
-- index: holdfast_host (primary key)
UPDATE holdfast_host SET unreachable_at = :at WHERE id = :id;
