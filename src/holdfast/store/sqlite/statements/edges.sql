-- Dependencies between tasks.

-- name: insert_edges
-- index: holdfast_edge (primary key)
INSERT INTO holdfast_edge (child_id, parent_id, policy, settled, unlinked)
SELECT child_id, parent_id, policy, settled, unlinked
FROM {rows: child_id text, parent_id text, policy text, settled integer, unlinked integer};

-- name: mark_parents
-- index: holdfast_task (primary key)
UPDATE holdfast_task SET has_dependents = 1 WHERE id IN (SELECT value FROM json_each(:ids)) AND has_dependents = 0;

-- name: any_unlinked
-- index: holdfast_edge_unlinked
-- returns: child_id
SELECT child_id FROM holdfast_edge WHERE unlinked = 1 AND child_id NOT IN (SELECT value FROM json_each(:without))
ORDER BY parent_id, child_id LIMIT 1;

-- name: unlinked_edges
-- Edges whose parents are possibly not marked as having dependents. With one writer no edge is inserted unlinked,
-- except in the simulator, which imitates several writers.
-- index: holdfast_edge_unlinked
-- returns: child_id parent_id
SELECT child_id, parent_id FROM holdfast_edge
WHERE unlinked = 1 AND child_id NOT IN (SELECT value FROM json_each(:without))
ORDER BY parent_id, child_id LIMIT :limit;

-- name: lock_unlinked_edges
-- Of these edges, those that are still unlinked.
-- index: holdfast_edge (primary key)
-- returns: child_id parent_id policy settled
SELECT e.child_id, e.parent_id, e.policy, e.settled
FROM {rows: child_id text, parent_id text}
JOIN holdfast_edge e ON e.child_id = r.child_id AND e.parent_id = r.parent_id
WHERE e.unlinked + 0 = 1 ORDER BY e.parent_id, e.child_id;

-- name: link_edges
-- index: holdfast_edge (primary key)
UPDATE holdfast_edge AS e SET unlinked = 0
FROM {rows: child_id text, parent_id text}
WHERE e.child_id = r.child_id AND e.parent_id = r.parent_id;

-- name: open_edges
-- The unsettled edges to the children of these parents.
-- index: holdfast_edge_parent
-- returns: child_id parent_id policy
SELECT child_id, parent_id, policy FROM holdfast_edge
WHERE parent_id IN (SELECT value FROM json_each(:ids)) AND settled = 0 ORDER BY parent_id, child_id
LIMIT :limit;

-- name: more_edges
-- The next unsettled edges of one parent, after the last child that was read.
-- index: holdfast_edge_parent
-- returns: child_id parent_id policy
SELECT child_id, parent_id, policy FROM holdfast_edge
WHERE parent_id = :parent_id AND child_id > :after_child AND settled = 0
ORDER BY child_id LIMIT :limit;

-- name: leave_cascades
-- Records cascades to continue: these parents ended or were revived, and not all children were settled.
-- index: holdfast_cascade (primary key)
INSERT INTO holdfast_cascade (parent_id, after_child)
SELECT parent_id, after_child FROM {rows: parent_id text, after_child text} WHERE true
ON CONFLICT (parent_id) DO UPDATE SET after_child = excluded.after_child;

-- name: leave_held
-- Records children that another transaction held when they were to be settled. With one writer there are none.
-- index: holdfast_cascade_held (primary key)
INSERT INTO holdfast_cascade_held (parent_id, child_id)
SELECT parent_id, child_id FROM {rows: parent_id text, child_id text} WHERE true
ON CONFLICT (parent_id, child_id) DO NOTHING;

-- name: take_held
-- index: holdfast_cascade_held (primary key), holdfast_edge (primary key)
-- returns: child_id parent_id policy settled
DELETE FROM holdfast_cascade_held WHERE parent_id = :parent_id AND child_id IN (
    SELECT h.child_id FROM holdfast_cascade_held h WHERE h.parent_id = :parent_id ORDER BY h.child_id LIMIT :limit)
RETURNING child_id, parent_id,
    (SELECT e.policy FROM holdfast_edge e
     WHERE e.child_id = holdfast_cascade_held.child_id AND e.parent_id = holdfast_cascade_held.parent_id),
    coalesce((SELECT e.settled FROM holdfast_edge e
              WHERE e.child_id = holdfast_cascade_held.child_id
                AND e.parent_id = holdfast_cascade_held.parent_id), 1);

-- name: cascades
-- index: holdfast_cascade (primary key), holdfast_cascade_held (primary key)
-- returns: parent_id
SELECT parent_id FROM holdfast_cascade UNION SELECT parent_id FROM holdfast_cascade_held
ORDER BY parent_id LIMIT :limit;

-- name: held_cascades
-- index: holdfast_cascade_held (primary key), holdfast_cascade (primary key)
-- returns: parent_id child_id
SELECT parent_id, child_id FROM holdfast_cascade_held UNION ALL SELECT parent_id, NULL FROM holdfast_cascade
ORDER BY parent_id LIMIT :limit;

-- name: held_ends
-- index: holdfast_cascade_held (primary key)
-- returns: parent_id
SELECT parent_id FROM holdfast_cascade_held
WHERE parent_id IN (SELECT value FROM json_each(:parents)) AND child_id = :id;

-- name: cascade_place
-- Where the next batch of a cascade starts.
-- index: holdfast_cascade (primary key)
-- returns: after_child
SELECT after_child FROM holdfast_cascade WHERE parent_id = :parent_id;

-- name: lock_free_family
-- With one writer no row is locked by another transaction, so this returns all rows.
-- index: holdfast_task (primary key)
-- returns: task
SELECT {task} FROM holdfast_task WHERE id IN (SELECT value FROM json_each(:ids)) ORDER BY id;

-- name: end_cascade
-- index: holdfast_cascade (primary key)
DELETE FROM holdfast_cascade WHERE parent_id = :parent_id;

-- name: settle_edges
-- Settles edges whose parents ended as the policy requires. An edge to a dead parent stays open.
-- index: holdfast_edge (primary key)
UPDATE holdfast_edge AS e SET settled = 1
FROM {rows: child_id text, parent_id text}
WHERE e.child_id = r.child_id AND e.parent_id = r.parent_id;

-- name: open_parents
-- The open edges of these children, with the status of each parent. The status is NULL if the parent was pruned.
-- index: holdfast_edge (primary key), holdfast_task (primary key)
-- returns: child_id parent_id policy status
SELECT e.child_id, e.parent_id, e.policy, p.status
FROM holdfast_edge e LEFT JOIN holdfast_task p ON p.id = e.parent_id
WHERE e.child_id IN (SELECT value FROM json_each(:ids)) AND e.settled = 0 ORDER BY e.child_id, e.parent_id;

-- name: dependents
-- index: holdfast_edge_parent
-- returns: child_id
SELECT child_id FROM holdfast_edge WHERE parent_id = :id ORDER BY child_id LIMIT :limit;

-- name: dependencies
-- index: holdfast_edge (primary key)
-- returns: parent_id policy settled status
SELECT e.parent_id, e.policy, e.settled, t.status
FROM holdfast_edge e LEFT JOIN holdfast_task t ON t.id = e.parent_id
WHERE e.child_id = :id ORDER BY e.parent_id;
