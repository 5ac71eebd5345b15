-- The exchange: kept answers, conflicts, log and figures.

-- name: mutations
-- index: holdfast_mutation (primary key)
-- returns: id fingerprint answer_json
SELECT id, fingerprint, answer_json FROM holdfast_mutation
WHERE node = :node AND id IN (SELECT value FROM json_each(:ids));

-- name: add_mutations
-- index: holdfast_mutation (primary key)
-- returns: id
INSERT OR IGNORE INTO holdfast_mutation (node, id, project, fingerprint, answer_json, at)
SELECT :node, r.id, :project, r.fingerprint, r.answer_json, :now
FROM {rows: id text, fingerprint text, answer_json text} WHERE true
RETURNING id;

-- name: add_conflicts
-- index: holdfast_conflict (primary key)
INSERT INTO holdfast_conflict (id, project, task_id, client_id, kind, base_version, server_version, server_json,
    client_json, node, mutation_id, state, resolution, settled_by, at, settled_at)
SELECT id, :project, task_id, client_id, kind, base_version, server_version, server_json, client_json, :node,
    mutation_id, state, resolution, settled_by, :now,
    CASE WHEN state = 'settled' THEN :now END
FROM {rows: id text, task_id text, client_id text, kind text, base_version integer, server_version integer,
    server_json text, client_json text, mutation_id text, state text, resolution text, settled_by text} WHERE true;

-- name: same_conflict
-- index: holdfast_conflict_task
-- returns: id
SELECT id FROM holdfast_conflict
WHERE task_id = :task_id AND state = 'open' AND node = :node AND client_json = :client_json
ORDER BY id LIMIT 1;

-- name: open_of_task
-- The open conflicts of a task, up to a bound.
-- index: holdfast_conflict_task
-- returns: id
SELECT id FROM holdfast_conflict WHERE task_id = :task_id AND state = 'open' LIMIT :limit;

-- name: list_conflicts
-- index: holdfast_conflict_project
-- returns: id project task_id client_id kind base_version server_version server_json client_json node mutation_id state resolution settled_by reason at version
SELECT id, project, task_id, client_id, kind, base_version, server_version, server_json, client_json, node,
    mutation_id, state, resolution, settled_by, reason, at, version
FROM holdfast_conflict
WHERE project = :project AND id > :after AND (:state IS NULL OR state = :state)
ORDER BY id LIMIT :limit;

-- name: page_conflicts
-- The conflicts of several projects, or of all.
-- index: holdfast_conflict (primary key)
-- returns: id project task_id client_id kind base_version server_version server_json client_json node mutation_id state resolution settled_by reason at version
SELECT id, project, task_id, client_id, kind, base_version, server_version, server_json, client_json, node,
    mutation_id, state, resolution, settled_by, reason, at, version
FROM holdfast_conflict
WHERE id > :after AND (:projects IS NULL OR project IN (SELECT value FROM json_each(:projects)))
  AND (:state IS NULL OR state = :state)
ORDER BY id LIMIT :limit;

-- name: get_conflict
-- index: holdfast_conflict (primary key)
-- returns: id project task_id client_id kind base_version server_version server_json client_json node mutation_id state resolution settled_by reason at version
SELECT id, project, task_id, client_id, kind, base_version, server_version, server_json, client_json, node,
    mutation_id, state, resolution, settled_by, reason, at, version
FROM holdfast_conflict WHERE id = :id;

-- name: lock_conflict
-- index: holdfast_conflict (primary key)
-- returns: id project task_id client_id kind base_version server_version server_json client_json node mutation_id state resolution settled_by reason at version
SELECT id, project, task_id, client_id, kind, base_version, server_version, server_json, client_json, node,
    mutation_id, state, resolution, settled_by, reason, at, version
FROM holdfast_conflict WHERE id = :id;

-- name: settle_conflict
-- index: holdfast_conflict (primary key)
UPDATE holdfast_conflict SET state = 'settled', resolution = :resolution, settled_by = :settled_by, reason = :reason,
    settled_at = :now, version = version + 1
WHERE id = :id;

-- name: add_log
-- index: holdfast_sync_log (primary key)
INSERT INTO holdfast_sync_log (project, at, node, op, task_id, mutation_id, outcome, code, resolution, from_version,
    to_version, clock)
SELECT :project, :now, :node, op, task_id, mutation_id, outcome, code, resolution, from_version, to_version, clock
FROM {rows: op text, task_id text, mutation_id text, outcome text, code text, resolution text,
    from_version integer, to_version integer, clock integer} WHERE true;

-- name: read_log
-- index: holdfast_sync_log_project
-- returns: id at node op task_id mutation_id outcome code resolution from_version to_version clock
SELECT id, at, node, op, task_id, mutation_id, outcome, code, resolution, from_version, to_version, clock
FROM holdfast_sync_log
WHERE project = :project AND id > :after_id AND (:task_id IS NULL OR task_id = :task_id)
  AND (:node IS NULL OR node = :node) AND (:outcome IS NULL OR outcome = :outcome)
ORDER BY id LIMIT :limit;

-- name: read_log_end
-- The last entries, the newest first.
-- index: holdfast_sync_log_project
-- returns: id at node op task_id mutation_id outcome code resolution from_version to_version clock
SELECT id, at, node, op, task_id, mutation_id, outcome, code, resolution, from_version, to_version, clock
FROM holdfast_sync_log
WHERE project = :project AND (:task_id IS NULL OR task_id = :task_id)
  AND (:node IS NULL OR node = :node) AND (:outcome IS NULL OR outcome = :outcome)
ORDER BY id DESC LIMIT :limit;

-- name: add_tally
-- index: holdfast_tally (primary key)
INSERT INTO holdfast_tally (project, name, n)
SELECT :project, name, n FROM {rows: name text, n integer} WHERE true
ON CONFLICT (project, name) DO UPDATE SET n = holdfast_tally.n + excluded.n;

-- name: read_tally
-- index: holdfast_tally (primary key)
-- returns: name n
SELECT name, n FROM holdfast_tally WHERE project = :project;

-- name: extend_lock
-- A renewal changes no state, so it has no event. It is fenced like every write of a runner.
-- index: holdfast_task (primary key)
UPDATE holdfast_task SET lease_until = :until, lease_seconds = :seconds
WHERE id = :id AND fence = :fence AND status IN ('running', 'stuck');

-- name: lock_ends
-- How many leases of a project have ended, up to a bound, and when the next one ends.
-- index: holdfast_task_lease
-- returns: expired soonest
SELECT (SELECT count(*) FROM (
        SELECT 1 FROM holdfast_task
        WHERE status IN ('running', 'stuck') AND lease_until <= :now AND project = :project LIMIT :limit) ended
    ) AS expired,
    (SELECT lease_until FROM holdfast_task
     WHERE status IN ('running', 'stuck') AND lease_until > :now AND project = :project
     ORDER BY lease_until LIMIT 1) AS soonest;

-- name: count_held
-- The tasks of a project that are held. Held tasks are few.
-- index: holdfast_task_gate
-- returns: n
SELECT count(*) AS n FROM holdfast_task WHERE status = 'queued' AND gate = '!held' AND project = :project;

-- name: expired_locks
-- index: holdfast_task_lease
-- returns: task
SELECT {task} FROM holdfast_task
WHERE status IN ('running', 'stuck') AND lease_until <= :now AND (:project IS NULL OR project = :project)
ORDER BY lease_until LIMIT :limit;

-- name: count_open
-- Interventions that wait for a runner, and decisions that wait for a person. Both are few.
-- index: holdfast_intervention_due, holdfast_decision_open
-- returns: interventions decisions
SELECT (SELECT count(*) FROM holdfast_intervention
        WHERE state IN ('issued', 'delivered') AND project = :project) AS interventions,
    (SELECT count(*) FROM holdfast_decision WHERE state = 'open' AND project = :project) AS decisions;
