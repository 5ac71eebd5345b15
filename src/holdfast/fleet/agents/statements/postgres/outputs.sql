-- Output of runs that have ended: each content is stored once.

-- name: run_sizes
-- How many bytes each of these runs has in rows; none for a run without output.
-- index: holdfast_output_pkey
-- returns: task_id fence size
SELECT o.task_id, o.fence, coalesce(sum(length(o.data)), 0)::bigint AS size
FROM {rows: task_id text, fence bigint} JOIN holdfast_output o ON o.task_id = r.task_id AND o.fence = r.fence
GROUP BY o.task_id, o.fence;

-- name: run_pieces
-- Bytes travel as hexadecimal text.
-- index: holdfast_output_pkey
-- returns: task_id fence stream start size data_hex
SELECT o.task_id, o.fence, o.stream, o.start, o.size, encode(o.data, 'hex') AS data_hex
FROM {rows: task_id text, fence bigint} JOIN holdfast_output o ON o.task_id = r.task_id AND o.fence = r.fence
ORDER BY o.task_id, o.fence, o.stream, o.start;

-- name: drop_run_output
-- index: holdfast_output_pkey
DELETE FROM holdfast_output AS o USING {rows: task_id text, fence bigint}
WHERE o.task_id = r.task_id AND o.fence = r.fence;

-- name: add_blobs
-- index: holdfast_blob_pkey
INSERT INTO holdfast_blob (sha256, size, data, refs)
SELECT r.digest, r.size, decode(r.data_hex, 'hex'), r.refs
FROM {rows: digest text, size bigint, data_hex text, refs bigint}
ORDER BY r.digest
ON CONFLICT (sha256) DO UPDATE SET refs = holdfast_blob.refs + excluded.refs;
