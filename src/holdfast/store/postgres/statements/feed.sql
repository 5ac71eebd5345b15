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
SELECT pg_notify(CASE split_part(:hint::text, ' ', 1) WHEN 'work' THEN 'holdfast_work' ELSE 'holdfast' END,
    :hint::text) AS hinted;

-- name: number_records
-- The function is in migration 0007; 0005 says why it is one.
-- index: holdfast_feed_unread
-- returns: numbered
SELECT holdfast_number() IS NULL AS numbered;

-- name: adopt_feed
-- A database that was restored on another server: transaction ids of the old one mean nothing here, and
-- what was committed after the backup is gone, so readers must start over.
-- Ids that were given out but not written may be given out again after a crash of this very server: then
-- it is enough to look from the oldest on that was open.
UPDATE holdfast_feed_head h SET open_xids = ARRAY[]::xid8[],
    scan_xid = CASE WHEN is_other THEN '0' ELSE scan_xid END,
    next_xid = CASE WHEN is_other THEN '0' ELSE scan_xid END,
    epoch = CASE WHEN is_other THEN substr(md5(random()::text || clock_timestamp()::text), 1, 8) ELSE epoch END
FROM (SELECT scan_xid > pg_snapshot_xmax(pg_current_snapshot()) AS is_other FROM holdfast_feed_head) o
WHERE is_other OR next_xid > pg_snapshot_xmax(pg_current_snapshot());

-- name: feed_position
-- index: holdfast_feed_head_last
-- returns: epoch head oldest
SELECT epoch, head, oldest FROM holdfast_feed_head ORDER BY head DESC LIMIT 1;

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
-- returns: counted
SELECT holdfast_count() IS NULL AS counted;

-- name: counters
-- index: holdfast_counter_pkey
-- returns: queue type priority status n
SELECT queue, type, priority, status, n FROM holdfast_counter WHERE n <> 0;

-- name: prune_feed
-- Counted records only; the newest stays, so that the head is never forgotten. Only the first ones are
-- looked at: behind those that are to stay nothing older is worth a search. From where on the feed is whole
-- is said in the same statement.
-- index: holdfast_feed_offset, holdfast_feed_head_last
-- returns: gone through
WITH gone AS (
    DELETE FROM holdfast_feed WHERE id IN (
        SELECT id FROM (
            SELECT f.id, f.at FROM holdfast_feed f,
                (SELECT head, counted_through FROM holdfast_feed_head ORDER BY head DESC LIMIT 1) h
            WHERE f.first_offset >= :floor::bigint AND f.first_offset <= h.counted_through
              AND f.first_offset + f.facts_count - 1 < h.head
            ORDER BY f.first_offset LIMIT :limit::int) first
        WHERE at < :before::float8)
    RETURNING first_offset, facts_count
), forgotten AS (
    UPDATE holdfast_feed_head h SET oldest = greatest(h.oldest, g.oldest)
    FROM (SELECT max(first_offset + facts_count) AS oldest FROM gone) g WHERE g.oldest IS NOT NULL
)
SELECT count(*) AS gone, max(first_offset) AS through FROM gone;
