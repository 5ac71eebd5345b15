-- Rows that a running task adds to: output and metrics.

-- name: output_ends
-- Where each stream ends; no row for an empty one.
-- index: holdfast_output (primary key)
-- returns: task_id fence stream ends
SELECT r.task_id, r.fence, r.stream,
    (SELECT o.start + o.size FROM holdfast_output o
     WHERE o.task_id = r.task_id AND o.fence = r.fence AND o.stream = r.stream
     ORDER BY o.start DESC LIMIT 1) AS ends
FROM {rows: task_id text, fence integer, stream text};

-- name: output_pieces
-- The rows that overlap a range of a stream. Bytes travel as hexadecimal text.
-- index: holdfast_output (primary key)
-- returns: start size data_hex
SELECT start, size, iif(data IS NULL, NULL, hex(data)) AS data_hex FROM holdfast_output
WHERE task_id = :task_id AND fence = :fence AND stream = :stream AND start < :until
  AND start + size > :since
ORDER BY start;

-- name: insert_output
-- Bytes travel as hexadecimal text; NULL stays NULL.
-- index: holdfast_output (primary key)
INSERT INTO holdfast_output (task_id, fence, stream, start, size, data, at)
SELECT r.task_id, r.fence, r.stream, r.start, r.size, unhex(r.data_hex), :now
FROM {rows: task_id text, fence integer, stream text, start integer, size integer, data_hex text} WHERE true;

-- name: fold_output
-- Removes the rows of the middle. One row with their size replaces them.
-- index: holdfast_output (primary key)
-- returns: start size
DELETE FROM holdfast_output
WHERE task_id = :task_id AND fence = :fence AND stream = :stream AND start >= :head
  AND start + size <= :through
RETURNING start, size;

-- name: put_metrics
-- Totals only rise: a repeated or late report changes nothing.
-- index: holdfast_task_metric (primary key)
INSERT INTO holdfast_task_metric (task_id, node, fence, name, value)
SELECT r.task_id, r.node, r.fence, r.name, r.value
FROM {rows: task_id text, node text, fence integer, name text, value real} WHERE true
ON CONFLICT (task_id, node, fence, name) DO UPDATE SET value = max(value, excluded.value);
