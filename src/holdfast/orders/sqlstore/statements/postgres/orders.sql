-- Orders. An order, its stored answer and the freeze epoch change in one transaction.

-- name: lock_orders
-- index: holdfast_order_name
-- returns: client_order_id symbol side qty price state filled_qty avg_fill_price version epoch created_at updated_at idem_key
SELECT client_order_id, symbol, side, qty, price, state, filled_qty, avg_fill_price, version, epoch,
    created_at, updated_at, idem_key
FROM holdfast_order WHERE client_order_id = ANY(:ids::text[]) ORDER BY client_order_id FOR UPDATE;

-- name: lock_open_orders
-- index: holdfast_order_open
-- Locks by client_order_id, as `lock_orders` does, so that two callers do not deadlock. Returns the oldest first.
-- returns: client_order_id symbol side qty price state filled_qty avg_fill_price version epoch created_at updated_at idem_key
WITH locked AS MATERIALIZED (
    SELECT * FROM holdfast_order
    WHERE state IN ('PENDING', 'OPEN', 'PARTIALLY_FILLED', 'CANCEL_PENDING')
    ORDER BY client_order_id FOR UPDATE)
SELECT client_order_id, symbol, side, qty, price, state, filled_qty, avg_fill_price, version, epoch,
    created_at, updated_at, idem_key
FROM locked ORDER BY number;

-- name: get_orders
-- index: holdfast_order_name
-- returns: client_order_id symbol side qty price state filled_qty avg_fill_price version epoch created_at updated_at idem_key
SELECT client_order_id, symbol, side, qty, price, state, filled_qty, avg_fill_price, version, epoch,
    created_at, updated_at, idem_key
FROM holdfast_order WHERE client_order_id = ANY(:ids::text[]) ORDER BY client_order_id;

-- name: page_orders
-- index: holdfast_order_pkey
-- returns: number client_order_id symbol side qty price state filled_qty avg_fill_price version epoch created_at updated_at idem_key
SELECT number, client_order_id, symbol, side, qty, price, state, filled_qty, avg_fill_price, version, epoch,
    created_at, updated_at, idem_key
FROM holdfast_order WHERE number > :after::bigint ORDER BY number LIMIT :limit::int;

-- name: page_open_orders
-- index: holdfast_order_open
-- returns: number client_order_id symbol side qty price state filled_qty avg_fill_price version epoch created_at updated_at idem_key
SELECT number, client_order_id, symbol, side, qty, price, state, filled_qty, avg_fill_price, version, epoch,
    created_at, updated_at, idem_key
FROM holdfast_order
WHERE state IN ('PENDING', 'OPEN', 'PARTIALLY_FILLED', 'CANCEL_PENDING') AND number > :after::bigint
ORDER BY number LIMIT :limit::int;

-- name: page_symbol_orders
-- index: holdfast_order_symbol
-- returns: number client_order_id symbol side qty price state filled_qty avg_fill_price version epoch created_at updated_at idem_key
SELECT number, client_order_id, symbol, side, qty, price, state, filled_qty, avg_fill_price, version, epoch,
    created_at, updated_at, idem_key
FROM holdfast_order WHERE symbol = :symbol::text AND number > :after::bigint ORDER BY number LIMIT :limit::int;

-- name: insert_orders
-- index: holdfast_order_name
INSERT INTO holdfast_order (client_order_id, symbol, side, qty, price, state, filled_qty, avg_fill_price, version, epoch,
    created_at, updated_at, idem_key)
SELECT client_order_id, symbol, side, qty, price, state, filled_qty, avg_fill_price, version, epoch,
    created_at, updated_at, idem_key
FROM {rows: client_order_id text, symbol text, side text, qty text, price text, state text, filled_qty text,
    avg_fill_price text, version bigint, epoch bigint, created_at double precision, updated_at double precision,
    idem_key text};

-- name: write_orders
-- Writes a row only at the version that was read.
-- index: holdfast_order_name
-- returns: client_order_id
UPDATE holdfast_order SET state = r.state, filled_qty = r.filled_qty, avg_fill_price = r.avg_fill_price,
    version = r.version, updated_at = r.updated_at
FROM {rows: client_order_id text, seen bigint, state text, filled_qty text, avg_fill_price text, version bigint,
    updated_at double precision}
WHERE holdfast_order.client_order_id = r.client_order_id AND holdfast_order.version = r.seen
RETURNING holdfast_order.client_order_id;

-- name: get_order_answer
-- index: holdfast_order_answer_pkey
-- returns: operation key request ids_json changed at
SELECT operation, key, request, ids_json, changed, at FROM holdfast_order_answer
WHERE operation = :operation::text AND key = :key::text;

-- name: insert_order_answer
-- index: holdfast_order_answer_pkey
INSERT INTO holdfast_order_answer (operation, key, request, ids_json, changed, at)
VALUES (:operation::text, :key::text, :request::text, :ids_json::text, :changed::smallint, :at::float8);

-- name: forget_order_answers
-- index: holdfast_order_answer_at
-- returns: key
DELETE FROM holdfast_order_answer WHERE (operation, key) IN (
    SELECT operation, key FROM holdfast_order_answer WHERE at < :before::float8 ORDER BY at LIMIT :limit::int
    FOR UPDATE SKIP LOCKED)
RETURNING key;

-- name: get_order_freeze
-- The freeze state cannot change until this transaction ends.
-- index: holdfast_order_freeze_pkey
-- returns: epoch frozen reason at
SELECT epoch, frozen, reason, at FROM holdfast_order_freeze WHERE one = 1 FOR SHARE;

-- name: lock_order_freeze
-- index: holdfast_order_freeze_pkey
-- returns: epoch frozen reason at
SELECT epoch, frozen, reason, at FROM holdfast_order_freeze WHERE one = 1 FOR UPDATE;

-- name: write_order_freeze
-- index: holdfast_order_freeze_pkey
UPDATE holdfast_order_freeze SET epoch = :epoch::bigint, frozen = :frozen::smallint,
    reason = :reason::text, at = :at::float8 WHERE one = 1;
