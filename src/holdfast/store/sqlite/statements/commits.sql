-- Commit marks.

-- name: prune_marks
-- SQLite needs no commit marks, because the result of a local COMMIT cannot be lost. Returns no row.
-- returns: id
SELECT :before AS id WHERE :limit < 0;
