-- Outputs of executions.

-- name: outputs_page
-- index: holdfast_execution_job
-- returns: nth host output_json ended_at
SELECT nth, host, output_json, ended_at FROM holdfast_execution
WHERE job_id = :job_id AND nth > :after ORDER BY nth LIMIT :limit;

-- name: get_blobs
-- index: holdfast_blob (primary key)
-- returns: sha256 size data_hex
SELECT sha256, size, hex(substr(data, :start + 1, :limit)) AS data_hex FROM holdfast_blob
WHERE sha256 IN (SELECT value FROM json_each(:ids));
