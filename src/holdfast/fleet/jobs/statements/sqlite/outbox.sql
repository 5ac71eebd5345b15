-- What has to be done after a commit, written by the transaction that makes it due.

-- name: add_outbox
-- index: holdfast_outbox (primary key)
INSERT INTO holdfast_outbox (kind, subject, payload_json, created_at, due_at)
SELECT r.kind, r.subject, r.payload_json, :now, r.due_at
FROM {rows: kind text, subject text, payload_json text, due_at real};

-- name: claim_outbox
-- A claim moves the time at which the entry is due to its own end: an entry whose claimer died comes back by itself.
-- index: holdfast_outbox_due
-- returns: {outbox}
UPDATE holdfast_outbox SET claimed_by = :owner, claim_until = :until, due_at = :until, attempts = attempts + 1
WHERE id IN (
    SELECT id FROM holdfast_outbox WHERE kind = :kind AND done_at IS NULL AND due_at <= :now
    ORDER BY due_at LIMIT :limit
)
RETURNING {outbox};

-- name: end_outbox
-- Only the entries of these claims: an entry that another process has claimed since stays open.
-- index: holdfast_outbox (primary key)
-- returns: id
UPDATE holdfast_outbox AS o SET done_at = :now, error = ''
FROM {rows: id bigint, attempts bigint}
WHERE o.id = r.id AND o.attempts = r.attempts AND o.done_at IS NULL
RETURNING id;

-- name: delay_outbox
-- index: holdfast_outbox (primary key)
UPDATE holdfast_outbox SET due_at = :due_at, claimed_by = NULL, claim_until = NULL, error = :error
WHERE id = :id AND attempts = :attempts AND done_at IS NULL;

-- name: next_outbox
-- index: holdfast_outbox_due
-- returns: due_at
SELECT due_at FROM holdfast_outbox WHERE kind = :kind AND done_at IS NULL ORDER BY due_at LIMIT 1;

-- name: outbox_figures
-- index: holdfast_outbox_due
-- returns: kind n due_at
SELECT kind, count(*) AS n, min(due_at) AS due_at FROM holdfast_outbox WHERE done_at IS NULL GROUP BY kind;
