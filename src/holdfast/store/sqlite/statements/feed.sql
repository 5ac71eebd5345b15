-- The feed: one record for each transaction, numbered as it is written, since there is one writer.

-- name: record_facts
-- index: holdfast_feed (primary key)
INSERT INTO holdfast_feed (first_offset, id, facts_count, at, facts_json, deltas_json)
SELECT head + 1, :batch, :facts_count, :now, :facts_json, :deltas_json FROM holdfast_feed_head;

-- name: advance_head
UPDATE holdfast_feed_head SET head = head + :facts_count;

-- name: feed_position
-- returns: epoch head oldest
SELECT epoch, head, oldest FROM holdfast_feed_head;

-- name: read_records
-- From the record that holds the next offset on.
-- index: holdfast_feed (primary key)
-- returns: first_offset facts_count facts_json
SELECT first_offset, facts_count, facts_json FROM holdfast_feed
WHERE first_offset >= coalesce((SELECT max(first_offset) FROM holdfast_feed
                                WHERE first_offset <= :after + 1), 0)
  AND first_offset + facts_count > :after + 1
ORDER BY first_offset LIMIT :limit;

-- name: records_by_id
-- index: holdfast_feed.id (unique)
-- returns: first_offset facts_count facts_json
SELECT first_offset, facts_count, facts_json FROM holdfast_feed
WHERE id IN (SELECT value FROM json_each(:ids)) ORDER BY first_offset;

-- name: count_records
-- Folds what the records say into the counters, so that no figure needs a scan of tasks.
-- index: holdfast_feed (primary key)
INSERT INTO holdfast_counter (queue, type, priority, status, n)
SELECT d.value ->> 0, d.value ->> 1, d.value ->> 2, d.value ->> 3, sum(d.value ->> 4) AS n
FROM holdfast_feed_head h, holdfast_feed f, json_each(f.deltas_json) d
WHERE f.first_offset > h.counted_through AND f.first_offset <= h.head
GROUP BY 1, 2, 3, 4 HAVING n <> 0
ON CONFLICT (queue, type, priority, status) DO UPDATE SET n = n + excluded.n;

-- name: mark_counted
UPDATE holdfast_feed_head SET counted_through = head;

-- name: counters
-- index: holdfast_counter (primary key)
-- returns: queue type priority status n
SELECT queue, type, priority, status, n FROM holdfast_counter WHERE n <> 0;

-- name: adjust_counters
-- index: holdfast_counter (primary key)
INSERT INTO holdfast_counter (queue, type, priority, status, n)
SELECT queue, type, priority, status, n FROM {rows: queue text, type text, priority integer, status text,
    n integer} WHERE true
ON CONFLICT (queue, type, priority, status) DO UPDATE SET n = n + excluded.n;

-- name: prune_feed
-- Counted records only; the newest stays, so that the head is never forgotten.
-- index: holdfast_feed (primary key)
-- returns: first_offset facts_count
DELETE FROM holdfast_feed WHERE first_offset IN (
    SELECT f.first_offset FROM holdfast_feed f, holdfast_feed_head h
    WHERE f.first_offset + f.facts_count - 1 < h.head AND f.first_offset <= h.counted_through
      AND f.at < :before
    ORDER BY f.first_offset LIMIT :limit)
RETURNING first_offset, facts_count;

-- name: forget_before
UPDATE holdfast_feed_head SET oldest = max(oldest, :oldest);
