-- Sources and endpoints of webhooks. Deliveries are entries of the outbox.

-- name: add_webhook
-- No row: the name is taken.
-- index: holdfast_webhook_name
-- returns: id
INSERT INTO holdfast_webhook ({webhook}) SELECT {webhook:r} FROM {rows: @webhook} WHERE true
ON CONFLICT DO NOTHING RETURNING id;

-- name: get_webhook
-- index: holdfast_webhook_pkey
-- returns: {webhook}
SELECT {webhook} FROM holdfast_webhook WHERE id = :id::text;

-- name: lock_webhook
-- index: holdfast_webhook_pkey
-- returns: {webhook}
SELECT {webhook} FROM holdfast_webhook WHERE id = :id::text FOR NO KEY UPDATE;

-- name: active_webhooks
-- There are few. One of a name, or all.
-- index: holdfast_webhook_name
-- returns: {webhook}
SELECT {webhook} FROM holdfast_webhook
WHERE direction = :direction::text AND state = 'active' AND (:name::text IS NULL OR name = :name::text) ORDER BY name;

-- name: list_webhooks
-- By id, which rises with the time of creation.
-- index: holdfast_webhook_pkey
-- returns: {webhook}
SELECT {webhook} FROM holdfast_webhook
WHERE id > :after::text AND (:direction::text IS NULL OR direction = :direction::text)
  AND (:projects::text[] IS NULL OR project = ANY(:projects::text[]))
ORDER BY id LIMIT :limit::bigint;

-- name: count_webhooks
-- index: holdfast_webhook_name
-- returns: n
SELECT count(*) AS n FROM holdfast_webhook WHERE direction = :direction::text;

-- name: write_webhook
-- index: holdfast_webhook_pkey
UPDATE holdfast_webhook AS w SET url = r.url, kinds_json = r.kinds_json, secrets_json = r.secrets_json, state = r.state,
    position = r.position, version = r.version
FROM {rows: @webhook} WHERE w.id = r.id;

-- name: move_webhook
-- No row: another process has read these events for the endpoint, or it has been changed.
-- index: holdfast_webhook_pkey
-- returns: id
UPDATE holdfast_webhook SET position = :position::text
WHERE id = :id::text AND position = :before::text AND state = 'active' RETURNING id;

-- name: delete_webhook
-- index: holdfast_webhook_pkey
DELETE FROM holdfast_webhook WHERE id = :id::text;

-- name: add_deliveries
-- index: holdfast_outbox_pkey
-- returns: id
INSERT INTO holdfast_outbox (kind, subject, payload_json, created_at, due_at)
SELECT 'WEBHOOK', r.webhook, r.payload_json, :now::float8, :now::float8
FROM {rows: webhook text, payload_json text} WHERE true RETURNING id;

-- name: count_waiting
-- At most `most`.
-- index: holdfast_outbox_waiting
-- returns: n
SELECT count(*) AS n FROM (
    SELECT id FROM holdfast_outbox WHERE subject = :webhook::text AND done_at IS NULL LIMIT :most::bigint) waiting;

-- name: claim_deliveries
-- As `claim_outbox`, for one endpoint: a slow one does not stand before others.
-- index: holdfast_outbox_waiting
-- returns: {outbox}
UPDATE holdfast_outbox SET claimed_by = :owner::text, claim_until = :until::float8, due_at = :until::float8,
    attempts = attempts + 1
WHERE id IN (
    SELECT id FROM holdfast_outbox WHERE subject = :webhook::text AND done_at IS NULL AND due_at <= :now::float8
    ORDER BY due_at LIMIT :limit::bigint FOR UPDATE SKIP LOCKED
)
RETURNING {outbox};

-- name: end_delivery
-- Only under the claim of this attempt.
-- index: holdfast_outbox_pkey
UPDATE holdfast_outbox SET done_at = :done_at::float8, due_at = :due_at::float8, claimed_by = NULL, claim_until = NULL,
    error = :error::text
WHERE id = :id::bigint AND attempts = :attempts::bigint AND done_at IS NULL;

-- name: end_deliveries
-- All that wait for an endpoint which gets no more.
-- index: holdfast_outbox_waiting
UPDATE holdfast_outbox SET done_at = :now::float8, error = :error::text
WHERE subject = :webhook::text AND done_at IS NULL;

-- name: next_delivery
-- index: holdfast_outbox_due
-- returns: due_at
SELECT due_at FROM holdfast_outbox WHERE kind = 'WEBHOOK' AND done_at IS NULL ORDER BY due_at LIMIT 1;

-- name: list_deliveries
-- The newest first.
-- index: holdfast_outbox_subject
-- returns: {outbox}
SELECT {outbox} FROM holdfast_outbox WHERE subject = :webhook::text AND id < :before::bigint
ORDER BY id DESC LIMIT :limit::bigint;

-- name: get_delivery
-- index: holdfast_outbox_pkey
-- returns: {outbox}
SELECT {outbox} FROM holdfast_outbox WHERE id = :id::bigint AND subject = :webhook::text;
