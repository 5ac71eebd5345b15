-- What has to be done after a commit, written by the transaction that makes it due.

-- name: add_outbox
-- index: holdfast_outbox_pkey
INSERT INTO holdfast_outbox (kind, subject, payload_json, created_at, due_at)
SELECT r.kind, r.subject, r.payload_json, :now::float8, r.due_at
FROM {rows: kind text, subject text, payload_json text, due_at double precision};

-- name: claim_outbox
-- A claim moves the time at which the entry is due to its own end: an entry whose claimer died comes back by itself.
-- index: holdfast_outbox_due
-- returns: {outbox}
UPDATE holdfast_outbox SET claimed_by = :owner::text, claim_until = :until::float8, due_at = :until::float8, attempts = attempts + 1
WHERE id IN (
    SELECT id FROM holdfast_outbox WHERE kind = :kind::text AND done_at IS NULL AND due_at <= :now::float8
    ORDER BY due_at LIMIT :limit::int FOR UPDATE SKIP LOCKED
)
RETURNING {outbox};

-- name: end_outbox
-- Only the entries of these claims: an entry that another process has claimed since stays open.
-- index: holdfast_outbox_pkey
-- returns: id
UPDATE holdfast_outbox AS o SET done_at = :now::float8, error = ''
FROM {rows: id bigint, attempts bigint}
WHERE o.id = r.id AND o.attempts = r.attempts AND o.done_at IS NULL
RETURNING o.id;

-- name: delay_outbox
-- index: holdfast_outbox_pkey
UPDATE holdfast_outbox SET due_at = :due_at::float8, claimed_by = NULL, claim_until = NULL, error = :error::text
WHERE id = :id::bigint AND attempts = :attempts::bigint AND done_at IS NULL;

-- name: next_outbox
-- index: holdfast_outbox_due
-- returns: due_at
SELECT due_at FROM holdfast_outbox WHERE kind = :kind::text AND done_at IS NULL ORDER BY due_at LIMIT 1;

-- name: outbox_figures
-- index: holdfast_outbox_due
-- returns: kind n due_at
SELECT kind, count(*) AS n, min(due_at) AS due_at FROM holdfast_outbox WHERE done_at IS NULL GROUP BY kind;

-- name: overdue_pushed
-- Executions of hosts that a process of ours has to reach, which were due before `since` and are not taken.
-- index: holdfast_host_pushed, holdfast_task_gate, holdfast_execution_pkey
-- returns: id
SELECT t.id FROM holdfast_host h
JOIN holdfast_task t ON t.status = 'queued' AND t.gate = :prefix::text || h.id
JOIN holdfast_execution e ON e.task_id = t.id AND e.away = 0
WHERE h.driver = ANY(:drivers::text[]) AND h.driver <> 'agent' AND t.due_at <= :since::float8 LIMIT :limit::int;

-- name: left_slots
-- Executions that have the slots of hosts which no process serves now.
-- index: holdfast_host_pushed, holdfast_lease_pkey
-- returns: id
SELECT l.claim_id AS id FROM holdfast_host h
JOIN holdfast_lease l ON l.resource = :slot::text || h.id AND l.claim_id IS NOT NULL
LEFT JOIN holdfast_lease s ON s.resource = :drive::text || h.id
WHERE h.driver = ANY(:drivers::text[]) AND h.driver <> 'agent' AND (s.claim_id IS NULL OR s.expires_at <= :now::float8)
LIMIT :limit::int;
