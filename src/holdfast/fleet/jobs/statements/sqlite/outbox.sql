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

-- name: overdue_pushed
-- Executions of hosts that a process of ours has to reach, which were due before `since` and are not taken.
-- index: holdfast_host_pushed, holdfast_task_gate, holdfast_execution (primary key)
-- returns: id
SELECT t.id FROM json_each(:drivers) d
JOIN holdfast_host h ON h.driver = d.value AND h.driver <> 'agent'
JOIN holdfast_task t ON t.status = 'queued' AND t.gate = :prefix || h.id
JOIN holdfast_execution e ON e.task_id = t.id AND e.away = 0
WHERE t.due_at <= :since LIMIT :limit;

-- name: left_slots
-- Executions that have the slots of hosts which no process serves now.
-- index: holdfast_host_pushed, holdfast_lease (primary key)
-- returns: id
SELECT l.claim_id AS id FROM json_each(:drivers) d
JOIN holdfast_host h ON h.driver = d.value AND h.driver <> 'agent'
JOIN holdfast_lease l ON l.resource = :slot || h.id AND l.claim_id IS NOT NULL
LEFT JOIN holdfast_lease s ON s.resource = :drive || h.id
WHERE s.claim_id IS NULL OR s.expires_at <= :now LIMIT :limit;
