-- Names of tasks, and what the exchange knows of them.

-- name: named_tasks
-- The tasks of names within a project.
-- index: holdfast_sync_task_pkey
-- returns: client_id task_id
SELECT client_id, task_id FROM holdfast_sync_task
WHERE project = :project::text AND client_id = ANY(:client_ids::text[]);

-- name: sync_rows
-- index: holdfast_sync_task_of
-- returns: project client_id task_id clock writer writer_kind written_version created_hash content_json claim_node claim_incarnation claim_fence claim_id
SELECT project, client_id, task_id, clock, writer, writer_kind, written_version, created_hash, content_json,
    claim_node, claim_incarnation, claim_fence, claim_id
FROM holdfast_sync_task WHERE task_id = ANY(:ids::text[]);

-- name: lost_claims
-- Claims of an incarnation that the server has ended since.
-- index: holdfast_sync_task_claim, holdfast_task_pkey
-- returns: project client_id task_id clock writer writer_kind written_version created_hash content_json claim_node claim_incarnation claim_fence claim_id
SELECT s.project, s.client_id, s.task_id, s.clock, s.writer, s.writer_kind, s.written_version, s.created_hash,
    s.content_json, s.claim_node, s.claim_incarnation, s.claim_fence, s.claim_id
FROM holdfast_sync_task s JOIN holdfast_task t ON t.id = s.task_id
WHERE s.claim_node = :node::text AND s.claim_incarnation = :incarnation::bigint AND t.version > s.written_version
  AND t.updated_at > :since::float8 AND NOT (t.status IN ('running', 'stuck') AND t.fence = s.claim_fence)
ORDER BY s.task_id LIMIT :limit::bigint;

-- name: add_sync_row
-- Returns no row if the name exists.
-- index: holdfast_sync_task_pkey
-- returns: task_id
INSERT INTO holdfast_sync_task (project, client_id, task_id, clock, writer, writer_kind, written_version,
    created_hash, content_json, claim_node, claim_incarnation, claim_fence, claim_id)
SELECT project, client_id, task_id, clock, writer, writer_kind, written_version, created_hash, content_json,
    claim_node, claim_incarnation, claim_fence, claim_id
FROM {rows: project text, client_id text, task_id text, clock bigint, writer text, writer_kind text,
    written_version bigint, created_hash text, content_json text, claim_node text, claim_incarnation bigint,
    claim_fence bigint, claim_id text} WHERE true ON CONFLICT DO NOTHING
RETURNING task_id;

-- name: write_sync_rows
-- index: holdfast_sync_task_pkey
UPDATE holdfast_sync_task AS s SET clock = r.clock, writer = r.writer, writer_kind = r.writer_kind,
    written_version = r.written_version, content_json = r.content_json, claim_node = r.claim_node,
    claim_incarnation = r.claim_incarnation, claim_fence = r.claim_fence, claim_id = r.claim_id
FROM {rows: project text, client_id text, task_id text, clock bigint, writer text, writer_kind text,
    written_version bigint, created_hash text, content_json text, claim_node text, claim_incarnation bigint,
    claim_fence bigint, claim_id text}
WHERE s.project = r.project AND s.client_id = r.client_id;

-- name: page_project
-- The tasks of a project that is not the default one.
-- index: holdfast_task_project
-- returns: task
SELECT {task} FROM holdfast_task WHERE project = :project::text AND project <> 'default' AND id > :after::text
ORDER BY id LIMIT :limit::bigint;

-- name: page_default
-- Most tasks are in the default project.
-- index: holdfast_task_pkey
-- returns: task
SELECT {task} FROM holdfast_task WHERE project = 'default' AND id > :after::text ORDER BY id LIMIT :limit::bigint;

-- name: tombstones
-- index: holdfast_tombstone_pkey
-- returns: client_id version at
SELECT client_id, version, at FROM holdfast_tombstone
WHERE project = :project::text AND client_id = ANY(:client_ids::text[]);

-- name: drop_tombstones
-- A name that is used again is not deleted any more.
-- index: holdfast_tombstone_pkey
DELETE FROM holdfast_tombstone WHERE project = :project::text AND client_id = ANY(:client_ids::text[]);
