-- Hosts and groups.

-- name: get_hosts
-- index: holdfast_host_pkey
-- returns: {host}
SELECT {host} FROM holdfast_host WHERE id = ANY(:ids::text[]) ORDER BY id;

-- name: get_hosts_without_facts
-- index: holdfast_host_pkey
-- returns: {host}
SELECT id, project, name, driver, address, labels_json, :no_facts::text AS facts_json, state, created_at, updated_at, version,
    unreachable_at, returned_at
FROM holdfast_host WHERE id = ANY(:ids::text[]) ORDER BY id;

-- name: hosts_named
-- index: holdfast_host_name
-- returns: {host}
SELECT {host} FROM holdfast_host WHERE project = :project::text AND name = ANY(:names::text[]) ORDER BY name;

-- name: lock_hosts
-- By id, in the order in which all transactions lock hosts.
-- index: holdfast_host_pkey
-- returns: {host}
SELECT {host} FROM holdfast_host WHERE id = ANY(:ids::text[]) ORDER BY id FOR NO KEY UPDATE;

-- name: list_hosts
-- A page by name. Hosts that were removed are in it only if their state is asked for.
-- index: holdfast_host_name
-- returns: {host}
SELECT {host} FROM holdfast_host
WHERE project = :project::text AND name > :after::text
  AND (state = :state::text OR (:state::text IS NULL AND state <> 'gone'))
  AND (:part::text IS NULL OR strpos(name, :part::text) > 0)
ORDER BY name LIMIT :limit::bigint;

-- name: hosts_without_facts
-- All hosts of a project that were not removed, in pages by name.
-- index: holdfast_host_name
-- returns: {host}
SELECT id, project, name, driver, address, labels_json, :no_facts::text AS facts_json, state, created_at, updated_at, version,
    unreachable_at, returned_at
FROM holdfast_host WHERE project = :project::text AND name > :after::text AND state <> 'gone'
ORDER BY name LIMIT :limit::bigint;

-- name: count_hosts
-- index: holdfast_host_name
-- returns: n
SELECT count(*) AS n FROM holdfast_host WHERE project = :project::text AND state <> 'gone';

-- name: host_figures
-- Hosts that were not removed, by state and by whether they answer. A host over SSH does unless the last
-- attempt failed a short while ago.
-- index: holdfast_host_standing, holdfast_agent_pkey
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
-- index: holdfast_host_pkey
UPDATE holdfast_host AS h SET driver = r.driver, address = r.address, labels_json = r.labels_json, state = r.state,
    updated_at = r.updated_at, version = r.version, returned_at = r.returned_at
FROM {rows: @host}
WHERE h.id = r.id;

-- name: write_facts
-- index: holdfast_host_pkey
UPDATE holdfast_host AS h SET facts_json = r.facts_json FROM {rows: id text, facts_json text}
WHERE h.id = r.id AND h.facts_json <> r.facts_json;

-- name: end_idle_agents
-- The agents of hosts whose slots are free. One that runs a command may report its end.
-- index: holdfast_agent_pkey, holdfast_lease_pkey
-- returns: host_id
DELETE FROM holdfast_agent AS a WHERE a.host_id = ANY(:ids::text[]) AND NOT EXISTS (
    SELECT 1 FROM holdfast_lease l WHERE l.resource = :prefix::text || a.host_id AND l.claim_id IS NOT NULL)
RETURNING host_id;

-- name: end_agents
-- index: holdfast_agent_pkey
-- returns: host_id
DELETE FROM holdfast_agent WHERE host_id = ANY(:ids::text[]) RETURNING host_id;

-- name: revoke_credentials
-- index: holdfast_token_node
UPDATE holdfast_token SET revoked_at = :now::double precision
WHERE node_id = ANY(:ids::text[]) AND kind = 'agent' AND revoked_at IS NULL;

-- name: raise_block_epoch
-- What blocks say about hosts has changed: agents fetch them again.
-- index: holdfast_project_pkey
-- returns: block_epoch
INSERT INTO holdfast_project (id, created_at, block_epoch) VALUES (:id::text, :now::float8, 1)
ON CONFLICT (id) DO UPDATE SET block_epoch = holdfast_project.block_epoch + 1
RETURNING block_epoch;

-- name: has_selector_blocks
-- index: holdfast_block_active
-- returns: id
SELECT id FROM holdfast_block WHERE project = :project::text AND lifted_at IS NULL AND selector IS NOT NULL LIMIT 1;

-- name: block_epochs
-- A project without a row has none.
-- index: holdfast_project_pkey
-- returns: id block_epoch
SELECT id, block_epoch FROM holdfast_project WHERE id = ANY(:ids::text[]);

-- name: add_local_agents
-- They have no credential, and name one that does not exist: their agents run in a process of the store.
-- index: holdfast_node_pkey
INSERT INTO holdfast_node (id, project, kind, state, incarnation, started_at, registered_at, seen_at, info_json,
    labels_json, token_id, token_at)
SELECT r.id, r.project, 'agent', 'live', 1, :now::float8, :now::float8, :now::float8, :info_json::text,
    r.labels_json, 'local', :now::float8
FROM {rows: id text, project text, labels_json text}
ON CONFLICT (id) DO NOTHING;

-- name: hold_project
-- Locks the row of a project, so that what its holders read and write happens one after the other.
-- index: holdfast_project_pkey
INSERT INTO holdfast_project (id, created_at) VALUES (:id::text, :now::float8)
ON CONFLICT (id) DO UPDATE SET version = holdfast_project.version;

-- name: silent_hosts
-- A page by name of active hosts whose agents were not heard of since a time.
-- index: holdfast_agent_seen
-- returns: {host}
WITH silent AS MATERIALIZED (SELECT host_id FROM holdfast_agent WHERE seen_at < :since::float8)
SELECT {host} FROM holdfast_host
WHERE project = :project::text AND name > :after::text AND state = 'active' AND id IN (SELECT host_id FROM silent)
ORDER BY name LIMIT :limit::bigint;

-- name: note_reach
-- index: holdfast_host_pkey
UPDATE holdfast_host SET unreachable_at = :at::double precision WHERE id = :id::text;
