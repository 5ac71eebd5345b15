-- A claim and a completion each write a new version of a row, with an entry in the index of ids. Half of a page is left
-- to the next version of its rows, so fewer pages are written, and fewer bytes of log. Ids rise, so pages of the index
-- are filled once, from its end: with room for the entries they are not split, and not searched for dead entries
-- meanwhile. Pages that exist stay as they are.
ALTER TABLE holdfast_task SET (fillfactor = 50);
ALTER INDEX holdfast_task_pkey SET (fillfactor = 50);
-- prune_tasks and delete_tasks delete the edges of the tasks that they delete. The trigger of this key read the old
-- version of each row that was updated, and ran a statement for each row that was deleted.
ALTER TABLE holdfast_edge DROP CONSTRAINT holdfast_edge_child_id_fkey;
