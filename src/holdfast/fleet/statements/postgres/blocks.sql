-- Blocks. Every change raises the epoch of their project.

-- name: add_block
-- index: holdfast_block_pkey
INSERT INTO holdfast_block ({block}) SELECT {block:r} FROM {rows: @block};

-- name: get_block
-- index: holdfast_block_pkey
-- returns: {block}
SELECT {block} FROM holdfast_block WHERE id = :id::text;

-- name: lock_block
-- index: holdfast_block_pkey
-- returns: {block}
SELECT {block} FROM holdfast_block WHERE id = :id::text FOR NO KEY UPDATE;

-- name: active_blocks
-- Those that have not been lifted. Who judges looks at their times too.
-- index: holdfast_block_active
-- returns: {block}
SELECT {block} FROM holdfast_block WHERE project = :project::text AND lifted_at IS NULL ORDER BY id;

-- name: count_blocks
-- index: holdfast_block_active
-- returns: n
SELECT count(*) AS n FROM holdfast_block WHERE project = :project::text AND lifted_at IS NULL;

-- name: list_blocks
-- Those that have not been lifted, by id, which rises with the time of creation.
-- index: holdfast_block_active
-- returns: {block}
SELECT {block} FROM holdfast_block
WHERE project = :project::text AND id > :after::text AND lifted_at IS NULL ORDER BY id LIMIT :limit::bigint;

-- name: list_lifted_blocks
-- The latest first.
-- index: holdfast_block_lifted
-- returns: {block}
SELECT {block} FROM holdfast_block
WHERE lifted_at IS NOT NULL AND project = :project::text ORDER BY lifted_at DESC, id LIMIT :limit::bigint;

-- name: write_block
-- index: holdfast_block_pkey
UPDATE holdfast_block AS b SET command_type = r.command_type, reason = r.reason, owner = r.owner, effect = r.effect,
    on_running = r.on_running, on_lift = r.on_lift, window_json = r.window_json, expires_at = r.expires_at,
    lifted_at = r.lifted_at, lifted_by = r.lifted_by, version = r.version
FROM {rows: @block} WHERE b.id = r.id;

-- name: expired_blocks
-- Those that nothing else has ended yet. The outer conditions are judged again after a wait for a lock, the inner ones
-- are not.
-- index: holdfast_block_expires
-- returns: {block}
SELECT {block} FROM holdfast_block WHERE id IN (
    SELECT id FROM holdfast_block WHERE lifted_at IS NULL AND expires_at IS NOT NULL AND expires_at <= :now::float8
    ORDER BY expires_at LIMIT :limit::bigint)
    AND lifted_at IS NULL AND expires_at <= :now::float8
ORDER BY id FOR NO KEY UPDATE;

-- name: next_block_end
-- index: holdfast_block_expires
-- returns: expires_at
SELECT expires_at FROM holdfast_block WHERE lifted_at IS NULL AND expires_at IS NOT NULL ORDER BY expires_at LIMIT 1;

-- name: windowed_blocks
-- Of all projects. There are few.
-- index: holdfast_block_active
-- returns: {block}
SELECT {block} FROM holdfast_block WHERE lifted_at IS NULL AND window_json IS NOT NULL ORDER BY project, id
LIMIT :limit::bigint;
