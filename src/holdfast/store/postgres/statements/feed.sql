-- The feed: one record for each transaction, numbered when first read.
-- A sequence is not in commit order, so records get their offsets afterwards: whoever reads first numbers
-- what has been committed since. `ord` is drawn by the last statement of a transaction, when all its row
-- locks are held; so of two transactions that touch one task, the later has the higher `ord`.

-- name: record_facts
-- index: holdfast_feed_pkey
INSERT INTO holdfast_feed (id, facts_count, at, facts_json, deltas_json)
VALUES (:batch::text::bigint, :facts_count::int, :now::float8, :facts_json::text, :deltas_json::text);

-- name: hint
-- returns: hinted
SELECT pg_notify('holdfast', :hint::text) AS hinted;

-- name: has_unread
-- index: holdfast_feed_unread
-- returns: unread
SELECT EXISTS (SELECT FROM holdfast_feed f, holdfast_feed_head h
               WHERE f.first_offset IS NULL AND f.xid >= h.scan_xid)::int AS unread;

-- name: lock_head
-- returns: head
SELECT head FROM holdfast_feed_head FOR UPDATE;

-- name: number_records
-- A statement of its own, so that its snapshot is taken after the lock: it sees all that was committed.
-- index: holdfast_feed_unread
WITH head AS MATERIALIZED (SELECT head, scan_xid FROM holdfast_feed_head),
unread AS MATERIALIZED (
    SELECT f.id, head.head + 1 + sum(f.facts_count) OVER (ORDER BY f.ord) - f.facts_count AS first_offset,
        f.facts_count
    FROM holdfast_feed f, head WHERE f.first_offset IS NULL AND f.xid >= head.scan_xid
), numbered AS (
    UPDATE holdfast_feed f SET first_offset = u.first_offset FROM unread u WHERE f.id = u.id
)
UPDATE holdfast_feed_head SET
    head = head + coalesce((SELECT sum(facts_count) FROM unread), 0),
    scan_xid = pg_snapshot_xmin(pg_current_snapshot());

-- name: adopt_feed
-- A database that was restored on another server: transaction ids of the old one mean nothing here, and
-- what was committed after the backup is gone, so readers must start over.
UPDATE holdfast_feed_head SET scan_xid = '0'::xid8,
    epoch = substr(md5(random()::text || clock_timestamp()::text), 1, 8)
WHERE scan_xid > pg_snapshot_xmax(pg_current_snapshot());

-- name: feed_position
-- returns: epoch head oldest
SELECT epoch, head, oldest FROM holdfast_feed_head;

-- name: read_records
-- From the record that holds the next offset on.
-- index: holdfast_feed_offset
-- returns: first_offset facts_count facts_json
SELECT first_offset, facts_count, facts_json FROM holdfast_feed
WHERE first_offset >= coalesce((SELECT max(first_offset) FROM holdfast_feed
                                WHERE first_offset <= :after::bigint + 1), 0)
  AND first_offset + facts_count > :after::bigint + 1
ORDER BY first_offset LIMIT :limit::int;

-- name: records_by_id
-- index: holdfast_feed_pkey
-- returns: first_offset facts_count facts_json
SELECT first_offset, facts_count, facts_json FROM holdfast_feed
WHERE id = ANY(:ids::bigint[]) ORDER BY first_offset, ord;

-- name: count_records
-- Folds what the records say into the counters, so that no figure needs a scan of tasks.
-- index: holdfast_feed_offset
WITH head AS MATERIALIZED (SELECT head, counted_through FROM holdfast_feed_head FOR UPDATE),
delta AS (
    SELECT d ->> 0 AS queue, d ->> 1 AS type, (d ->> 2)::smallint AS priority, d ->> 3 AS status,
        sum((d ->> 4)::bigint) AS n
    FROM head, holdfast_feed f, json_array_elements(f.deltas_json::json) d
    WHERE f.first_offset > head.counted_through AND f.first_offset <= head.head
    GROUP BY 1, 2, 3, 4
), added AS (
    INSERT INTO holdfast_counter AS c (queue, type, priority, status, n)
    SELECT queue, type, priority, status, n FROM delta WHERE n <> 0
    ON CONFLICT (queue, type, priority, status) DO UPDATE SET n = c.n + excluded.n
)
UPDATE holdfast_feed_head SET counted_through = (SELECT head FROM head);

-- name: counters
-- index: holdfast_counter_pkey
-- returns: queue type priority status n
SELECT queue, type, priority, status, n FROM holdfast_counter WHERE n <> 0;

-- name: adjust_counters
-- index: holdfast_counter_pkey
INSERT INTO holdfast_counter AS c (queue, type, priority, status, n)
SELECT queue, type, priority, status, n FROM {rows: queue text, type text, priority smallint, status text,
    n bigint}
ON CONFLICT (queue, type, priority, status) DO UPDATE SET n = c.n + excluded.n;

-- name: prune_feed
-- Counted records only; the newest stays, so that the head is never forgotten.
-- index: holdfast_feed_offset
-- returns: first_offset facts_count
DELETE FROM holdfast_feed WHERE id IN (
    SELECT f.id FROM holdfast_feed f, holdfast_feed_head h
    WHERE f.first_offset + f.facts_count - 1 < h.head AND f.first_offset <= h.counted_through
      AND f.at < :before::float8
    ORDER BY f.first_offset LIMIT :limit::int)
RETURNING first_offset, facts_count;

-- name: forget_before
UPDATE holdfast_feed_head SET oldest = greatest(oldest, :oldest::bigint);
