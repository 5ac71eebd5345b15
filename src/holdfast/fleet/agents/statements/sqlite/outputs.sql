-- Output of runs that have ended: each content is stored once.

-- name: run_sizes
-- How many bytes each of these runs has in rows; none for a run without output.
-- index: holdfast_output (primary key)
-- returns: task_id fence size
SELECT o.task_id, o.fence, coalesce(sum(length(o.data)), 0) AS size
FROM {rows: task_id text, fence integer} JOIN holdfast_output o ON o.task_id = r.task_id AND o.fence = r.fence
GROUP BY o.task_id, o.fence;

-- name: run_pieces
-- Bytes travel as hexadecimal text.
-- index: holdfast_output (primary key)
-- returns: task_id fence stream start size data_hex
SELECT o.task_id, o.fence, o.stream, o.start, o.size, iif(o.data IS NULL, NULL, hex(o.data)) AS data_hex
FROM {rows: task_id text, fence integer} JOIN holdfast_output o ON o.task_id = r.task_id AND o.fence = r.fence
ORDER BY o.task_id, o.fence, o.stream, o.start;

-- name: drop_run_output
-- index: holdfast_output (primary key)
DELETE FROM holdfast_output WHERE (task_id, fence) IN (SELECT r.task_id, r.fence FROM {rows: task_id text, fence integer});

-- name: add_blobs
-- index: holdfast_blob (primary key)
INSERT INTO holdfast_blob (sha256, size, data, refs)
SELECT r.digest, r.size, unhex(r.data_hex), r.refs
FROM {rows: digest text, size integer, data_hex text, refs integer} WHERE true
ON CONFLICT (sha256) DO UPDATE SET refs = holdfast_blob.refs + excluded.refs;
