-- Fast paths (store/fast): the decisions of the core for plain tasks, as single statements.

-- name: insert_plain
-- An existing id is skipped. If fewer rows were inserted than given, the caller takes the general path.
-- index: holdfast_task (primary key)
INSERT OR IGNORE INTO holdfast_task ({plain}, status, created_at, updated_at, due_at, history)
SELECT {plain:r}, 'queued', :now, :now, :now + r.delay, :record_id FROM {rows: @plain, delay real};

-- name: insert_alike
-- The same for tasks that differ only in id and payload: the other values are passed once, not read from every row.
-- index: holdfast_task (primary key)
INSERT OR IGNORE INTO holdfast_task (id, payload_json, {shape}, status, created_at, updated_at, due_at, history)
SELECT r.id, r.payload_json, {shape?}, 'queued', :now, :now, :now + :delay, :record_id FROM {rows: id text, payload_json text};

-- name: insert_one
-- Inserts one task and its event with plain values, in one call, because a caller waits for it. The id is generated.
-- If it exists after all, both inserts fail and the caller takes the general path.
-- index: holdfast_task (primary key), holdfast_feed (primary key)
INSERT INTO holdfast_feed (first_offset, events_count, at, events_json, deltas_json)
VALUES ((SELECT coalesce(max(first_offset), 0) + coalesce((SELECT events_count FROM holdfast_feed
                                                           ORDER BY first_offset DESC LIMIT 1), 1)
         FROM holdfast_feed), :events_count, :now, :events_json, :deltas_json);
INSERT INTO holdfast_task ({plain}, status, created_at, updated_at, due_at, history)
VALUES ({plain?}, 'queued', :now, :now, :due_at, CAST(last_insert_rowid() AS text));

-- name: start_one
-- Inserts a task that is already running, with both events, in one call. Writes nothing if its queue is paused or
-- another task in these queues is ready; the row count tells the caller.
-- index: holdfast_task_ready, holdfast_task (primary key), holdfast_feed (primary key)
INSERT INTO holdfast_feed (first_offset, events_count, at, events_json, deltas_json)
SELECT (SELECT coalesce(max(first_offset), 0) + coalesce((SELECT events_count FROM holdfast_feed
                                                          ORDER BY first_offset DESC LIMIT 1), 1)
        FROM holdfast_feed), :events_count, :now, :events_json, :deltas_json
WHERE NOT EXISTS (SELECT 1 FROM holdfast_queue WHERE name = :queue AND paused_at IS NOT NULL)
  AND NOT EXISTS (
    SELECT 1 FROM json_each(:queues) q CROSS JOIN json_each('[0,1,2,3]') p CROSS JOIN holdfast_task t
    WHERE t.queue = q.value AND t.priority = p.value AND t.status = 'queued' AND t.gate IS NULL
      AND t.due_at <= :now);
INSERT INTO holdfast_task ({plain}, status, attempts, version, fence, created_at, updated_at, due_at, started_at,
    node, lease_until, progress_due_at, history)
SELECT {plain?}, 'running', 1, 2, 1, :now, :now, :due_at, :now, :node, :lease_until,
    :now + :progress_timeout_seconds,
    CAST(last_insert_rowid() AS text)
WHERE changes() = 1;

-- name: scan_lane
-- As `pick_lane`, but returns only the rowid and whether the general path claims the task: it has limits or is of a fair type.
-- index: holdfast_task_ready
-- returns: row_id is_aside
SELECT rowid AS row_id, (limits IS NOT NULL OR fair_key IS NOT NULL) AS is_aside FROM holdfast_task
WHERE queue = :queue AND priority = :priority AND status = 'queued' AND gate IS NULL
  AND due_at <= :now AND type IN (SELECT value FROM json_each(:types))
  AND (:projects IS NULL OR project IN (SELECT value FROM json_each(:projects)))
ORDER BY due_at, rowid LIMIT :limit;

-- name: take_rows
-- index: holdfast_task (rowid)
UPDATE holdfast_task SET status = 'running', version = version + 1, fence = fence + 1,
    attempts = attempts + 1, updated_at = :now, started_at = :now, node = :node,
    lease_until = :now + :lease_seconds, claim_id = :claim_id, lease_seconds = :own_lease_seconds,
    progress_json = NULL, progress_due_at = :now + progress_timeout_seconds, history = substr(history || ',' || :record_id, -2000)
WHERE rowid IN (SELECT value FROM json_each(:row_ids)) AND status = 'queued';

-- name: get_rows
-- index: holdfast_task (rowid)
-- returns: task
SELECT {task:t} FROM json_each(:row_ids) r JOIN holdfast_task t ON t.rowid = r.value;

-- name: complete_plain
-- Completes tasks without dependents and without limits. Rows that do not match are left to the general path, which
-- determines the reason.
-- index: holdfast_task (primary key)
UPDATE holdfast_task AS t SET status = 'completed', version = t.version + 1, updated_at = :now,
    finished_at = :now, node = NULL, lease_until = NULL, progress_due_at = NULL, result_json = r.result_json,
    history = substr(t.history || ',' || :record_id, -2000)
FROM {rows: id text, fence integer, version integer, result_json text}
WHERE t.id = r.id AND t.fence = r.fence AND t.version = r.version AND t.status = 'running'
  AND t.has_dependents = 0 AND t.limits IS NULL;

-- name: complete_alike
-- The same for runs with one fence, version and result: only the ids are read from JSON.
-- index: holdfast_task (primary key)
UPDATE holdfast_task SET status = 'completed', version = version + 1, updated_at = :now,
    finished_at = :now, node = NULL, lease_until = NULL, progress_due_at = NULL, result_json = :result_json,
    history = substr(history || ',' || :record_id, -2000)
WHERE id IN (SELECT value FROM json_each(:ids)) AND fence = :fence AND version = :version AND status = 'running'
  AND has_dependents = 0 AND limits IS NULL;

-- name: changed_by
-- Of these tasks, those that this record changed.
-- index: holdfast_task (primary key)
-- returns: id
SELECT id FROM holdfast_task WHERE id IN (SELECT value FROM json_each(:ids))
  AND (history = :record_id OR history LIKE '%,' || :record_id);
