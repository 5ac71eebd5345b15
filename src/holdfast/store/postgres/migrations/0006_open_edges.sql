-- An edge is settled when its parent has ended as the child needs it. Those to dead parents are open again, so
-- that the children know which of them stand in the way of coming back.

UPDATE holdfast_edge SET settled = 0
WHERE settled = 1 AND policy = 'fail'
  AND parent_id IN (SELECT id FROM holdfast_task WHERE status IN ('failed', 'aborted'));
