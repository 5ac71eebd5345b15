-- The exchange: kept answers, conflicts, log and figures.

-- name: mutations
-- index: holdfast_mutation_pkey
-- returns: id fingerprint answer_json
SELECT id, fingerprint, answer_json FROM holdfast_mutation
WHERE node = :node::text AND id = ANY(:ids::text[]);

-- name: add_mutations
-- index: holdfast_mutation_pkey
-- returns: id
INSERT INTO holdfast_mutation (node, id, project, fingerprint, answer_json, at)
SELECT :node::text, r.id, :project::text, r.fingerprint, r.answer_json, :now::float8
FROM {rows: id text, fingerprint text, answer_json text} WHERE true ON CONFLICT DO NOTHING
RETURNING id;

-- name: add_conflicts
-- index: holdfast_conflict_pkey
INSERT INTO holdfast_conflict (id, project, task_id, client_id, kind, base_version, server_version, server_json,
    client_json, node, mutation_id, state, resolution, settled_by, at, settled_at)
SELECT id, :project::text, task_id, client_id, kind, base_version, server_version, server_json, client_json, :node::text,
    mutation_id, state, resolution, settled_by, :now::float8,
    CASE WHEN state = 'settled' THEN :now::float8 END
FROM {rows: id text, task_id text, client_id text, kind text, base_version bigint, server_version bigint,
    server_json text, client_json text, mutation_id text, state text, resolution text, settled_by text} WHERE true;

-- name: same_conflict
-- index: holdfast_conflict_task
-- returns: id
SELECT id FROM holdfast_conflict
WHERE task_id = :task_id::text AND state = 'open' AND node = :node::text AND client_json = :client_json::text
ORDER BY id LIMIT 1;

-- name: open_of_task
-- The open conflicts of a task, up to a bound.
-- index: holdfast_conflict_task
-- returns: id
SELECT id FROM holdfast_conflict WHERE task_id = :task_id::text AND state = 'open' LIMIT :limit::bigint;

-- name: list_conflicts
-- index: holdfast_conflict_project
-- returns: id project task_id client_id kind base_version server_version server_json client_json node mutation_id state resolution settled_by reason at version
SELECT id, project, task_id, client_id, kind, base_version, server_version, server_json, client_json, node,
    mutation_id, state, resolution, settled_by, reason, at, version
FROM holdfast_conflict
WHERE project = :project::text AND id > :after::text AND (:state::text IS NULL OR state = :state::text)
ORDER BY id LIMIT :limit::bigint;

-- name: page_conflicts
-- The conflicts of several projects, or of all.
-- index: holdfast_conflict_pkey
-- returns: id project task_id client_id kind base_version server_version server_json client_json node mutation_id state resolution settled_by reason at version
SELECT id, project, task_id, client_id, kind, base_version, server_version, server_json, client_json, node,
    mutation_id, state, resolution, settled_by, reason, at, version
FROM holdfast_conflict
WHERE id > :after::text AND (:projects::text[] IS NULL OR project = ANY(:projects::text[]))
  AND (:state::text IS NULL OR state = :state::text)
ORDER BY id LIMIT :limit::bigint;

-- name: get_conflict
-- index: holdfast_conflict_pkey
-- returns: id project task_id client_id kind base_version server_version server_json client_json node mutation_id state resolution settled_by reason at version
SELECT id, project, task_id, client_id, kind, base_version, server_version, server_json, client_json, node,
    mutation_id, state, resolution, settled_by, reason, at, version
FROM holdfast_conflict WHERE id = :id::text;

-- name: lock_conflict
-- index: holdfast_conflict_pkey
-- returns: id project task_id client_id kind base_version server_version server_json client_json node mutation_id state resolution settled_by reason at version
SELECT id, project, task_id, client_id, kind, base_version, server_version, server_json, client_json, node,
    mutation_id, state, resolution, settled_by, reason, at, version
FROM holdfast_conflict WHERE id = :id::text FOR NO KEY UPDATE;

-- name: settle_conflict
-- index: holdfast_conflict_pkey
UPDATE holdfast_conflict SET state = 'settled', resolution = :resolution::text, settled_by = :settled_by::text, reason = :reason::text,
    settled_at = :now::float8, version = version + 1
WHERE id = :id::text;

-- name: add_log
-- The project is locked before the entries get their numbers, so they commit in the order of their numbers: a
-- reader that pages by the number misses none.
-- index: holdfast_sync_log_pkey, holdfast_project_pkey
WITH locked AS MATERIALIZED (
    SELECT count(*) FROM (SELECT id FROM holdfast_project WHERE id = :project::text FOR NO KEY UPDATE) p
)
INSERT INTO holdfast_sync_log (project, at, node, op, task_id, mutation_id, outcome, code, resolution, from_version,
    to_version, clock)
SELECT :project::text, :now::float8, :node::text, op, task_id, mutation_id, outcome, code, resolution, from_version, to_version, clock
FROM {rows: op text, task_id text, mutation_id text, outcome text, code text, resolution text,
    from_version bigint, to_version bigint, clock bigint}, locked WHERE true;

-- name: read_log
-- index: holdfast_sync_log_project
-- returns: id at node op task_id mutation_id outcome code resolution from_version to_version clock
SELECT id, at, node, op, task_id, mutation_id, outcome, code, resolution, from_version, to_version, clock
FROM holdfast_sync_log
WHERE project = :project::text AND id > :after_id::bigint AND (:task_id::text IS NULL OR task_id = :task_id::text)
  AND (:node::text IS NULL OR node = :node::text) AND (:outcome::text IS NULL OR outcome = :outcome::text)
ORDER BY id LIMIT :limit::bigint;

-- name: read_log_end
-- The last entries, the newest first.
-- index: holdfast_sync_log_project
-- returns: id at node op task_id mutation_id outcome code resolution from_version to_version clock
SELECT id, at, node, op, task_id, mutation_id, outcome, code, resolution, from_version, to_version, clock
FROM holdfast_sync_log
WHERE project = :project::text AND (:task_id::text IS NULL OR task_id = :task_id::text)
  AND (:node::text IS NULL OR node = :node::text) AND (:outcome::text IS NULL OR outcome = :outcome::text)
ORDER BY id DESC LIMIT :limit::bigint;

-- name: add_tally
-- index: holdfast_tally_pkey
INSERT INTO holdfast_tally (project, name, n)
SELECT :project::text, name, n FROM {rows: name text, n bigint} WHERE true
ON CONFLICT (project, name) DO UPDATE SET n = holdfast_tally.n + excluded.n;

-- name: read_tally
-- index: holdfast_tally_pkey
-- returns: name n
SELECT name, n FROM holdfast_tally WHERE project = :project::text;

-- name: extend_lock
-- A renewal changes no state, so it has no event. It is fenced like every write of a runner.
-- index: holdfast_task_pkey
UPDATE holdfast_task SET lease_until = :until::float8, lease_seconds = :seconds::float8
WHERE id = :id::text AND fence = :fence::bigint AND status IN ('running', 'stuck');

-- name: lock_ends
-- How many leases of a project have ended, up to a bound, and when the next one ends.
-- index: holdfast_task_lease
-- returns: expired soonest
SELECT (SELECT count(*) FROM (
        SELECT 1 FROM holdfast_task
        WHERE status IN ('running', 'stuck') AND lease_until <= :now::float8 AND project = :project::text LIMIT :limit::bigint) ended
    ) AS expired,
    (SELECT lease_until FROM holdfast_task
     WHERE status IN ('running', 'stuck') AND lease_until > :now::float8 AND project = :project::text
     ORDER BY lease_until LIMIT 1) AS soonest;

-- name: count_held
-- The tasks of a project that are held. Held tasks are few.
-- index: holdfast_task_gate
-- returns: n
SELECT count(*) AS n FROM holdfast_task WHERE status = 'queued' AND gate = '!held' AND project = :project::text;

-- name: expired_locks
-- index: holdfast_task_lease
-- returns: task
SELECT {task} FROM holdfast_task
WHERE status IN ('running', 'stuck') AND lease_until <= :now::float8 AND (:project::text IS NULL OR project = :project::text)
ORDER BY lease_until LIMIT :limit::bigint;

-- name: count_open
-- Interventions that wait for a runner, and decisions that wait for a person. Both are few.
-- index: holdfast_intervention_due, holdfast_decision_open
-- returns: interventions decisions
SELECT (SELECT count(*) FROM holdfast_intervention
        WHERE state IN ('issued', 'delivered') AND project = :project::text) AS interventions,
    (SELECT count(*) FROM holdfast_decision WHERE state = 'open' AND project = :project::text) AS decisions;
