-- Dependencies between tasks.

-- name: insert_edges
-- index: holdfast_edge_pkey
INSERT INTO holdfast_edge (child_id, parent_id, policy, settled, unlinked)
SELECT child_id, parent_id, policy, settled, unlinked
FROM {rows: child_id text, parent_id text, policy text, settled smallint, unlinked smallint};

-- name: mark_parents
-- index: holdfast_task_pkey
UPDATE holdfast_task SET has_dependents = 1 WHERE id = ANY(:ids::text[]) AND has_dependents = 0;

-- name: any_unlinked
-- index: holdfast_edge_unlinked
-- returns: child_id
SELECT child_id FROM holdfast_edge WHERE unlinked = 1 AND child_id <> ALL(:without::text[])
ORDER BY parent_id, child_id LIMIT 1;

-- name: unlinked_edges
-- Edges whose parents are possibly not marked as having dependents. The scan steps from parent to parent, not from
-- edge to edge, so a parent that another transaction holds costs one step, however many children it has. A pruned
-- parent has no row to lock.
-- index: holdfast_edge_unlinked, holdfast_task_pkey
-- returns: child_id parent_id
WITH RECURSIVE parents AS (
    (SELECT parent_id FROM holdfast_edge WHERE unlinked = 1 AND child_id <> ALL(:without::text[])
     ORDER BY parent_id, child_id LIMIT 1)
    UNION ALL
    SELECT (SELECT e.parent_id FROM holdfast_edge e
            WHERE e.unlinked = 1 AND e.parent_id > p.parent_id AND e.child_id <> ALL(:without::text[])
            ORDER BY e.parent_id, e.child_id LIMIT 1)
    FROM parents p WHERE p.parent_id IS NOT NULL
), free AS (
    SELECT t.id FROM parents p JOIN holdfast_task t ON t.id = p.parent_id
    LIMIT :limit::int FOR NO KEY UPDATE OF t SKIP LOCKED
), pruned AS (
    SELECT p.parent_id AS id FROM parents p
    WHERE p.parent_id IS NOT NULL
      AND NOT EXISTS (SELECT FROM holdfast_task t WHERE t.id = p.parent_id)
    LIMIT :limit::int
)
SELECT e.child_id, e.parent_id FROM (SELECT id FROM free UNION ALL SELECT id FROM pruned) AS found
CROSS JOIN LATERAL (
    SELECT child_id, parent_id FROM holdfast_edge
    WHERE unlinked = 1 AND parent_id = found.id AND child_id <> ALL(:without::text[])
    ORDER BY parent_id, child_id LIMIT :limit::int) AS e
LIMIT :limit::int;

-- name: lock_free_family
-- Locks parents that get dependents, or children that are settled, and skips those that another transaction changes.
-- FOR NO KEY UPDATE does not conflict with transactions that only need the row to exist: a step in the caller's
-- transaction, or a foreign key of an application table.
-- index: holdfast_task_pkey
-- returns: task
SELECT {task} FROM holdfast_task WHERE id = ANY(:ids::text[]) ORDER BY id FOR NO KEY UPDATE SKIP LOCKED;

-- name: lock_unlinked_edges
-- Of these edges, those that are still unlinked and that no other transaction is linking. `+ 0` keeps the planner
-- from the index of unlinked edges, which it would scan completely for each row.
-- index: holdfast_edge_pkey, holdfast_edge_parent
-- returns: child_id parent_id policy settled
SELECT e.child_id, e.parent_id, e.policy, e.settled
FROM {rows: child_id text, parent_id text}
JOIN holdfast_edge e ON e.child_id = r.child_id AND e.parent_id = r.parent_id
WHERE e.unlinked + 0 = 1 ORDER BY e.parent_id, e.child_id FOR UPDATE OF e SKIP LOCKED;

-- name: link_edges
-- index: holdfast_edge_pkey
UPDATE holdfast_edge e SET unlinked = 0
FROM {rows: child_id text, parent_id text}
WHERE e.child_id = r.child_id AND e.parent_id = r.parent_id;

-- name: open_edges
-- The unsettled edges to the children of these parents.
-- index: holdfast_edge_parent
-- returns: child_id parent_id policy
SELECT child_id, parent_id, policy FROM holdfast_edge
WHERE parent_id = ANY(:ids::text[]) AND settled = 0 ORDER BY parent_id, child_id
LIMIT :limit::int;

-- name: more_edges
-- The next unsettled edges of one parent, after the last child that was read.
-- index: holdfast_edge_parent
-- returns: child_id parent_id policy
SELECT child_id, parent_id, policy FROM holdfast_edge
WHERE parent_id = :parent_id::text AND child_id > :after_child::text AND settled = 0
ORDER BY child_id LIMIT :limit::int;

-- name: leave_cascades
-- Records cascades to continue: these parents ended or were revived, and not all children were settled.
-- index: holdfast_cascade_pkey
INSERT INTO holdfast_cascade (parent_id, after_child)
SELECT parent_id, after_child FROM {rows: parent_id text, after_child text}
ON CONFLICT (parent_id) DO UPDATE SET after_child = excluded.after_child;

-- name: leave_held
-- Records children that another transaction held when they were to be settled.
-- index: holdfast_cascade_held_pkey
INSERT INTO holdfast_cascade_held (parent_id, child_id)
SELECT parent_id, child_id FROM {rows: parent_id text, child_id text}
ON CONFLICT (parent_id, child_id) DO NOTHING;

-- name: take_held
-- Removes and returns the recorded children of a parent that no transaction holds now, or that were pruned. Only
-- transactions that have locked the parent write these rows, so no two take the same child.
-- index: holdfast_cascade_held_pkey, holdfast_task_pkey, holdfast_edge_pkey
-- returns: child_id parent_id policy settled
WITH free AS MATERIALIZED (
    SELECT t.id FROM holdfast_cascade_held h JOIN holdfast_task t ON t.id = h.child_id
    WHERE h.parent_id = :parent_id::text LIMIT :limit::int FOR NO KEY UPDATE OF t SKIP LOCKED
), gone AS (
    SELECT h.child_id AS id FROM holdfast_cascade_held h
    WHERE h.parent_id = :parent_id::text AND NOT EXISTS (SELECT FROM holdfast_task t WHERE t.id = h.child_id)
), taken AS (
    DELETE FROM holdfast_cascade_held WHERE parent_id = :parent_id::text
      AND child_id IN (SELECT id FROM free UNION ALL SELECT id FROM gone)
    RETURNING child_id, parent_id
)
SELECT k.child_id, k.parent_id, e.policy, coalesce(e.settled, 1) AS settled
FROM taken k LEFT JOIN holdfast_edge e ON e.child_id = k.child_id AND e.parent_id = k.parent_id ORDER BY k.child_id;

-- name: cascades
-- Parents whose cascade can continue. A row that another transaction holds is skipped without using up the limit.
-- index: holdfast_cascade_pkey, holdfast_cascade_held_pkey, holdfast_task_pkey
-- returns: parent_id
WITH rest AS MATERIALIZED (
    SELECT t.id FROM holdfast_cascade c JOIN holdfast_task t ON t.id = c.parent_id
    ORDER BY c.parent_id LIMIT :limit::int FOR NO KEY UPDATE OF t SKIP LOCKED
), free AS MATERIALIZED (
    SELECT h.parent_id FROM holdfast_cascade_held h JOIN holdfast_task t ON t.id = h.child_id
    ORDER BY h.parent_id LIMIT :limit::int FOR NO KEY UPDATE OF t SKIP LOCKED
), gone AS (
    SELECT h.parent_id FROM holdfast_cascade_held h
    WHERE NOT EXISTS (SELECT FROM holdfast_task t WHERE t.id = h.child_id) LIMIT :limit::int
)
SELECT id AS parent_id FROM rest UNION SELECT parent_id FROM free UNION SELECT parent_id FROM gone
ORDER BY parent_id LIMIT :limit::int;

-- name: held_cascades
-- All unfinished cascades, including those that other transactions hold. The child is NULL where the cascade of the
-- parent itself has to continue.
-- index: holdfast_cascade_held_pkey, holdfast_cascade_pkey
-- returns: parent_id child_id
SELECT parent_id, child_id FROM (
    (SELECT parent_id, child_id FROM holdfast_cascade_held ORDER BY parent_id, child_id LIMIT :limit::int)
    UNION ALL
    (SELECT parent_id, NULL AS child_id FROM holdfast_cascade ORDER BY parent_id LIMIT :limit::int)) AS left_over
ORDER BY parent_id LIMIT :limit::int;

-- name: held_ends
-- Of these ended parents, those whose end is not yet settled for this child because another transaction held it.
-- index: holdfast_cascade_held_pkey
-- returns: parent_id
SELECT parent_id FROM holdfast_cascade_held WHERE parent_id = ANY(:parents::text[]) AND child_id = :id::text;

-- name: cascade_place
-- Where the next batch of a cascade starts.
-- index: holdfast_cascade_pkey
-- returns: after_child
SELECT after_child FROM holdfast_cascade WHERE parent_id = :parent_id::text;

-- name: end_cascade
-- index: holdfast_cascade_pkey
DELETE FROM holdfast_cascade WHERE parent_id = :parent_id::text;

-- name: settle_edges
-- Settles edges whose parents ended as the policy requires. An edge to a dead parent stays open.
-- index: holdfast_edge_pkey
UPDATE holdfast_edge e SET settled = 1
FROM {rows: child_id text, parent_id text}
WHERE e.child_id = r.child_id AND e.parent_id = r.parent_id;

-- name: open_parents
-- The open edges of these children, with the status of each parent. The status is NULL if the parent was pruned.
-- index: holdfast_edge_pkey, holdfast_task_pkey
-- returns: child_id parent_id policy status
SELECT e.child_id, e.parent_id, e.policy, p.status
FROM holdfast_edge e LEFT JOIN holdfast_task p ON p.id = e.parent_id
WHERE e.child_id = ANY(:ids::text[]) AND e.settled = 0 ORDER BY e.child_id, e.parent_id;

-- name: dependents
-- index: holdfast_edge_parent
-- returns: child_id
SELECT child_id FROM holdfast_edge WHERE parent_id = :id::text ORDER BY child_id LIMIT :limit::int;

-- name: dependencies
-- index: holdfast_edge_pkey
-- returns: parent_id policy settled status
SELECT e.parent_id, e.policy, e.settled, t.status
FROM holdfast_edge e LEFT JOIN holdfast_task t ON t.id = e.parent_id
WHERE e.child_id = :id::text ORDER BY e.parent_id;
