-- Dependencies between tasks.

-- name: insert_edges
-- index: holdfast_edge_pkey
INSERT INTO holdfast_edge (child_id, parent_id, policy)
SELECT child_id, parent_id, policy FROM {rows: child_id text, parent_id text, policy text};

-- name: mark_parents
-- index: holdfast_task_pkey
UPDATE holdfast_task SET has_dependents = 1 WHERE id = ANY(:ids::text[]) AND has_dependents = 0;

-- name: settle_met
-- Edges to parents that had ended before the child came.
-- index: holdfast_edge_pkey, holdfast_task_pkey
UPDATE holdfast_edge SET settled = 1 WHERE child_id = ANY(:ids::text[])
  AND parent_id IN (SELECT t.id FROM holdfast_task t
                    WHERE t.id = holdfast_edge.parent_id AND t.status IN ('completed', 'failed', 'aborted'));

-- name: open_edges
-- Who waits for these.
-- index: holdfast_edge_parent
-- returns: child_id parent_id policy
SELECT child_id, parent_id, policy FROM holdfast_edge
WHERE parent_id = ANY(:ids::text[]) AND settled = 0 ORDER BY child_id;

-- name: settle_edges
-- index: holdfast_edge_pkey
UPDATE holdfast_edge e SET settled = r.settled
FROM {rows: child_id text, parent_id text, settled smallint}
WHERE e.child_id = r.child_id AND e.parent_id = r.parent_id;

-- name: failed_with
-- Dependents that failed because one of these did, unless another parent is gone for good: waiting for
-- that one would be waiting for ever.
-- index: holdfast_edge_parent, holdfast_task_pkey
-- returns: child_id parent_id waiting_on
SELECT e.child_id, e.parent_id, (SELECT count(*)::int FROM holdfast_edge o
                                 WHERE o.child_id = e.child_id AND (o.settled = 0 OR o.parent_id = e.parent_id))
        AS waiting_on
FROM holdfast_edge e JOIN holdfast_task t ON t.id = e.child_id
WHERE e.parent_id = ANY(:ids::text[]) AND e.policy = 'fail' AND t.status = 'failed'
  AND NOT EXISTS (SELECT 1 FROM holdfast_edge o JOIN holdfast_task p ON p.id = o.parent_id
                  WHERE o.child_id = e.child_id AND o.settled = 0 AND o.policy = 'fail'
                    AND p.status = 'aborted')
ORDER BY e.child_id;

-- name: dependents
-- index: holdfast_edge_parent
-- returns: child_id
SELECT child_id FROM holdfast_edge WHERE parent_id = :id::text ORDER BY child_id LIMIT :limit::int;

-- name: dependencies
-- index: holdfast_edge_pkey
-- returns: parent_id policy settled
SELECT parent_id, policy, settled FROM holdfast_edge WHERE child_id = :id::text ORDER BY parent_id;
