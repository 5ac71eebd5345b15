-- Outputs of executions.

-- name: outputs_page
-- index: holdfast_execution_job
-- returns: nth host output_json ended_at
SELECT nth, host, output_json, ended_at FROM holdfast_execution
WHERE job_id = :job_id::text AND nth > :after::bigint ORDER BY nth LIMIT :limit::int;

-- name: get_blobs
-- index: holdfast_blob_pkey
-- returns: sha256 size data_hex
SELECT sha256, size, encode(substr(data, :start::int + 1, :limit::int), 'hex') AS data_hex FROM holdfast_blob
WHERE sha256 = ANY(:ids::text[]);
