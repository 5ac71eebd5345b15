-- What the live feed reads beside the events: output, and the state that a snapshot shows.

-- name: known_project
-- Whether a project was created, or has a task. The default project always exists.
-- index: holdfast_project (primary key), holdfast_task_project
-- returns: is_known
SELECT EXISTS (SELECT 1 FROM holdfast_project WHERE id = :project)
    OR EXISTS (SELECT 1 FROM holdfast_task WHERE project = :project AND project <> 'default') AS is_known;

-- name: open_conflicts
-- index: holdfast_conflict_open
-- returns: id project task_id client_id kind state node mutation_id base_version server_version resolution settled_by reason at version
SELECT id, project, task_id, client_id, kind, state, node, mutation_id, base_version, server_version, resolution,
    settled_by, reason, at, version
FROM holdfast_conflict
WHERE state = 'open' AND project = :project ORDER BY id LIMIT :limit;

-- name: open_conflicts_everywhere
-- index: holdfast_conflict_open
-- returns: id project task_id client_id kind state node mutation_id base_version server_version resolution settled_by reason at version
SELECT id, project, task_id, client_id, kind, state, node, mutation_id, base_version, server_version, resolution,
    settled_by, reason, at, version
FROM holdfast_conflict
WHERE state = 'open' ORDER BY project, id LIMIT :limit;

-- name: output_of_chunks
-- The rows that overlap ranges of streams. Bytes travel as hexadecimal text.
-- index: holdfast_output (primary key)
-- returns: nth start size data_hex
SELECT r.nth, o.start, o.size, iif(o.data IS NULL, NULL, hex(o.data)) AS data_hex
FROM {rows: nth integer, task_id text, fence integer, stream text, since integer, until integer}
JOIN holdfast_output o ON o.task_id = r.task_id AND o.fence = r.fence AND o.stream = r.stream
    AND o.start < r.until AND o.start + o.size > r.since
ORDER BY r.nth, o.start;
