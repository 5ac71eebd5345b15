-- Approvals of jobs, and the votes on them.

-- name: add_approval
-- index: holdfast_approval_pkey
INSERT INTO holdfast_approval ({approval}) VALUES ({approval?});

-- name: get_approval
-- index: holdfast_approval_pkey
-- returns: {approval}
SELECT {approval} FROM holdfast_approval WHERE id = :id::text;

-- name: votes_of
-- index: holdfast_vote_pkey
-- returns: {vote}
SELECT {vote} FROM holdfast_vote WHERE approval_id = :approval_id::text ORDER BY at, voter;

-- name: write_approval
-- Only from the state that was read.
-- index: holdfast_approval_pkey
-- returns: id
UPDATE holdfast_approval SET state = :state::text, ended_at = :ended_at::float8, version = :version::bigint
WHERE id = :id::text AND version = :seen::bigint AND state = :seen_state::text
RETURNING id;

-- name: exclude_voters
-- index: holdfast_approval_pkey
UPDATE holdfast_approval SET excluded_json = :excluded_json::text, version = version + 1 WHERE id = :id::text;

-- name: write_vote
-- index: holdfast_vote_pkey
INSERT INTO holdfast_vote ({vote}) VALUES ({vote?})
ON CONFLICT (approval_id, voter) DO UPDATE SET
    verdict = excluded.verdict, reason = excluded.reason, digest = excluded.digest, roles_json = excluded.roles_json,
    at = excluded.at, withdrawn_at = excluded.withdrawn_at;

-- name: approvals_due
-- index: holdfast_approval_pending
-- returns: job_id
SELECT job_id FROM holdfast_approval WHERE state = 'pending' AND expires_at <= :now::float8
ORDER BY expires_at LIMIT :limit::int;

-- name: open_approvals
-- index: holdfast_approval_pending
-- returns: {approval}
SELECT {approval} FROM holdfast_approval
WHERE state = 'pending' AND id > :after::text AND (:projects::text[] IS NULL OR project = ANY(:projects::text[]))
ORDER BY id LIMIT :limit::int;

-- name: break_glass_jobs
-- Jobs that skipped their approval, the latest first.
-- index: holdfast_job_glass
-- returns: {job}
SELECT {job} FROM holdfast_job WHERE project = :project::text AND break_glass_json IS NOT NULL
ORDER BY id DESC LIMIT :limit::int;

-- name: count_approvals
-- index: holdfast_approval_pending
-- returns: n
SELECT count(*) AS n FROM holdfast_approval WHERE state = 'pending';
