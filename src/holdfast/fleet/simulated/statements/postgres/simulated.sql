-- Nodes of simulated hosts.

-- name: add_simulated_nodes
-- They have no credential, and name one that does not exist: their agents run in a process of the store.
-- index: holdfast_node_pkey
INSERT INTO holdfast_node (id, project, kind, state, incarnation, started_at, registered_at, seen_at, info_json,
    labels_json, token_id, token_at)
SELECT r.id, :project::text, 'agent', 'live', 1, :now::float8, :now::float8, :now::float8, :info_json::text,
    r.labels_json, 'simulated', :now::float8
FROM {rows: id text, labels_json text} WHERE true
ON CONFLICT (id) DO NOTHING;
