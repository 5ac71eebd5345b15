-- Dependencies between tasks.

-- name: insert_edges
-- index: holdfast_edge (primary key)
INSERT INTO holdfast_edge (child_id, parent_id, policy)
SELECT child_id, parent_id, policy FROM {rows: child_id text, parent_id text, policy text};

-- name: mark_parents
-- index: holdfast_task (primary key)
UPDATE holdfast_task SET has_dependents = 1 WHERE id IN (SELECT value FROM json_each(:ids)) AND has_dependents = 0;

-- name: settle_met
-- Edges to parents that had ended before the child came.
-- index: holdfast_edge (primary key), holdfast_task (primary key)
UPDATE holdfast_edge SET settled = 1 WHERE child_id IN (SELECT value FROM json_each(:ids))
  AND parent_id IN (SELECT t.id FROM holdfast_task t
                    WHERE t.id = holdfast_edge.parent_id AND t.status IN ('completed', 'failed', 'aborted'));

-- name: open_edges
-- Who waits for these.
-- index: holdfast_edge_parent
-- returns: child_id parent_id policy
SELECT child_id, parent_id, policy FROM holdfast_edge
WHERE parent_id IN (SELECT value FROM json_each(:ids)) AND settled = 0 ORDER BY child_id;

-- name: settle_edges
-- Their parents have ended as the children need it. An edge to a dead parent stays open.
-- index: holdfast_edge (primary key)
UPDATE holdfast_edge AS e SET settled = 1
FROM {rows: child_id text, parent_id text}
WHERE e.child_id = r.child_id AND e.parent_id = r.parent_id;

-- name: fail_edges
-- Who has failed with these, or would. Which of them have is seen when they are locked.
-- index: holdfast_edge_parent
-- returns: child_id parent_id
SELECT child_id, parent_id FROM holdfast_edge
WHERE parent_id IN (SELECT value FROM json_each(:ids)) AND policy = 'fail' ORDER BY child_id, parent_id;

-- name: open_parents
-- What these wait for, or would wait for if they came back; no status when a parent was pruned.
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
-- returns: parent_id policy settled
SELECT parent_id, policy, settled FROM holdfast_edge WHERE child_id = :id ORDER BY parent_id;
