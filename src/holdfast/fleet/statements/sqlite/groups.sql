-- Groups of hosts: named selectors.

-- name: groups_of
-- index: holdfast_host_group (primary key)
-- returns: {group}
SELECT {group} FROM holdfast_host_group WHERE project = :project ORDER BY name;

-- name: list_groups
-- index: holdfast_host_group (primary key)
-- returns: {group}
SELECT {group} FROM holdfast_host_group WHERE project = :project AND name > :after
ORDER BY name LIMIT :limit;

-- name: write_group
-- index: holdfast_host_group (primary key)
INSERT INTO holdfast_host_group ({group}) SELECT {group:r} FROM {rows: @group} WHERE true
ON CONFLICT (project, name) DO UPDATE SET selector = excluded.selector, version = excluded.version;

-- name: delete_group
-- index: holdfast_host_group (primary key)
DELETE FROM holdfast_host_group WHERE project = :project AND name = :name;

-- name: selectors_of_blocks
-- Of the blocks that have not been lifted.
-- index: holdfast_block_active
-- returns: id selector
SELECT id, selector FROM holdfast_block
WHERE project = :project AND lifted_at IS NULL AND selector IS NOT NULL ORDER BY id;
