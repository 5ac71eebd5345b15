-- Sources and endpoints of webhooks. Deliveries are entries of the outbox.

-- name: add_webhook
-- No row: the name is taken.
-- index: holdfast_webhook_name
-- returns: id
INSERT INTO holdfast_webhook ({webhook}) SELECT {webhook:r} FROM {rows: @webhook} WHERE true
ON CONFLICT DO NOTHING RETURNING id;

-- name: get_webhook
-- index: holdfast_webhook (primary key)
-- returns: {webhook}
SELECT {webhook} FROM holdfast_webhook WHERE id = :id;

-- name: lock_webhook
-- index: holdfast_webhook (primary key)
-- returns: {webhook}
SELECT {webhook} FROM holdfast_webhook WHERE id = :id;

-- name: active_webhooks
-- There are few. One of a name, or all.
-- index: holdfast_webhook_name
-- returns: {webhook}
SELECT {webhook} FROM holdfast_webhook
WHERE direction = :direction AND state = 'active' AND (:name IS NULL OR name = :name) ORDER BY name;

-- name: list_webhooks
-- By id, which rises with the time of creation.
-- index: holdfast_webhook (primary key)
-- returns: {webhook}
SELECT {webhook} FROM holdfast_webhook
WHERE id > :after AND (:direction IS NULL OR direction = :direction)
  AND (:projects IS NULL OR project IN (SELECT value FROM json_each(:projects)))
ORDER BY id LIMIT :limit;

-- name: count_webhooks
-- index: holdfast_webhook_name
-- returns: n
SELECT count(*) AS n FROM holdfast_webhook WHERE direction = :direction;

-- name: write_webhook
-- index: holdfast_webhook (primary key)
UPDATE holdfast_webhook AS w SET url = r.url, kinds_json = r.kinds_json, secrets_json = r.secrets_json, state = r.state,
    position = r.position, version = r.version
FROM {rows: @webhook} WHERE w.id = r.id;

-- name: move_webhook
-- No row: another process has read these events for the endpoint, or it has been changed.
-- index: holdfast_webhook (primary key)
-- returns: id
UPDATE holdfast_webhook SET position = :position
WHERE id = :id AND position = :before AND state = 'active' RETURNING id;

-- name: delete_webhook
-- index: holdfast_webhook (primary key)
DELETE FROM holdfast_webhook WHERE id = :id;

-- name: add_deliveries
-- index: holdfast_outbox (primary key)
-- returns: id
INSERT INTO holdfast_outbox (kind, subject, payload_json, created_at, due_at)
SELECT 'WEBHOOK', r.webhook, r.payload_json, :now, :now
FROM {rows: webhook text, payload_json text} WHERE true RETURNING id;

-- name: count_waiting
-- At most `most`.
-- index: holdfast_outbox_waiting
-- returns: n
SELECT count(*) AS n FROM (
    SELECT id FROM holdfast_outbox WHERE subject = :webhook AND done_at IS NULL LIMIT :most) waiting;

-- name: claim_deliveries
-- As `claim_outbox`, for one endpoint: a slow one does not stand before others.
-- index: holdfast_outbox_waiting
-- returns: {outbox}
UPDATE holdfast_outbox SET claimed_by = :owner, claim_until = :until, due_at = :until,
    attempts = attempts + 1
WHERE id IN (
    SELECT id FROM holdfast_outbox WHERE subject = :webhook AND done_at IS NULL AND due_at <= :now
    ORDER BY due_at LIMIT :limit
)
RETURNING {outbox};

-- name: end_delivery
-- Only under the claim of this attempt.
-- index: holdfast_outbox (primary key)
UPDATE holdfast_outbox SET done_at = :done_at, due_at = :due_at, claimed_by = NULL, claim_until = NULL,
    error = :error
WHERE id = :id AND attempts = :attempts AND done_at IS NULL;

-- name: end_deliveries
-- All that wait for an endpoint which gets no more.
-- index: holdfast_outbox_waiting
UPDATE holdfast_outbox SET done_at = :now, error = :error
WHERE subject = :webhook AND done_at IS NULL;

-- name: next_delivery
-- index: holdfast_outbox_due
-- returns: due_at
SELECT due_at FROM holdfast_outbox WHERE kind = 'WEBHOOK' AND done_at IS NULL ORDER BY due_at LIMIT 1;

-- name: list_deliveries
-- The newest first.
-- index: holdfast_outbox_subject
-- returns: {outbox}
SELECT {outbox} FROM holdfast_outbox WHERE subject = :webhook AND id < :before
ORDER BY id DESC LIMIT :limit;

-- name: get_delivery
-- index: holdfast_outbox (primary key)
-- returns: {outbox}
SELECT {outbox} FROM holdfast_outbox WHERE id = :id AND subject = :webhook;
