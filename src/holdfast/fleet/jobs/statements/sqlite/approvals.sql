-- Approvals of jobs, and the votes on them.

-- name: add_approval
-- index: holdfast_approval (primary key)
INSERT INTO holdfast_approval ({approval}) VALUES ({approval?});

-- name: get_approval
-- index: holdfast_approval (primary key)
-- returns: {approval}
SELECT {approval} FROM holdfast_approval WHERE id = :id;

-- name: votes_of
-- index: holdfast_vote (primary key)
-- returns: {vote}
SELECT {vote} FROM holdfast_vote WHERE approval_id = :approval_id ORDER BY at, voter;

-- name: write_approval
-- Only from the state that was read.
-- index: holdfast_approval (primary key)
-- returns: id
UPDATE holdfast_approval SET state = :state, ended_at = :ended_at, version = :version
WHERE id = :id AND version = :seen AND state = :seen_state
RETURNING id;

-- name: exclude_voters
-- index: holdfast_approval (primary key)
UPDATE holdfast_approval SET excluded_json = :excluded_json, version = version + 1 WHERE id = :id;

-- name: write_vote
-- index: holdfast_vote (primary key)
INSERT INTO holdfast_vote ({vote}) VALUES ({vote?})
ON CONFLICT (approval_id, voter) DO UPDATE SET
    verdict = excluded.verdict, reason = excluded.reason, digest = excluded.digest, roles_json = excluded.roles_json,
    at = excluded.at, withdrawn_at = excluded.withdrawn_at;

-- name: approvals_due
-- index: holdfast_approval_pending
-- returns: job_id
SELECT job_id FROM holdfast_approval WHERE state = 'pending' AND expires_at <= :now
ORDER BY expires_at LIMIT :limit;

-- name: open_approvals
-- index: holdfast_approval_pending
-- returns: {approval}
SELECT {approval} FROM holdfast_approval
WHERE state = 'pending' AND id > :after AND (:projects IS NULL OR project IN (SELECT value FROM json_each(:projects)))
ORDER BY id LIMIT :limit;

-- name: break_glass_jobs
-- Jobs that skipped their approval, the latest first.
-- index: holdfast_job_glass
-- returns: {job}
SELECT {job} FROM holdfast_job WHERE project = :project AND break_glass_json IS NOT NULL
ORDER BY id DESC LIMIT :limit;

-- name: count_approvals
-- index: holdfast_approval_pending
-- returns: n
SELECT count(*) AS n FROM holdfast_approval WHERE state = 'pending';
