-- The feed: one record for each transaction. With one writer, offsets are assigned on insert.

-- name: schema_number
-- The last migration of the store.
-- returns: number
SELECT max(number) AS number FROM holdfast_migration;

-- name: next_offset
-- index: holdfast_feed (primary key)
-- returns: next_offset
SELECT coalesce(max(first_offset), 0) + coalesce((SELECT events_count FROM holdfast_feed
                                                  ORDER BY first_offset DESC LIMIT 1), 1) AS next_offset
FROM holdfast_feed;

-- name: append_record
-- index: holdfast_feed (primary key)
INSERT INTO holdfast_feed (first_offset, events_count, at, events_json, deltas_json)
VALUES (:record_id, :events_count, :now, :events_json, :deltas_json);

-- name: feed_position
-- index: holdfast_feed (primary key)
-- returns: epoch head oldest
SELECT epoch, coalesce((SELECT first_offset + events_count - 1 FROM holdfast_feed
                        ORDER BY first_offset DESC LIMIT 1), 0) AS head, oldest
FROM holdfast_feed_head;

-- name: read_records
-- The records of one page, starting with the record that contains the next offset.
-- index: holdfast_feed (primary key)
-- returns: first_offset events_count events_json
SELECT first_offset, events_count, events_json FROM holdfast_feed
WHERE first_offset >= coalesce((SELECT max(first_offset) FROM holdfast_feed
                                WHERE first_offset <= :after + 1), 0)
  AND first_offset + events_count > :after + 1
  AND first_offset <= :after + :limit
ORDER BY first_offset LIMIT :limit;

-- name: skim_records
-- Which of the texts the records from the one with the next offset through another offset contain. Most records have
-- events of one kind: as many starts of an event of that kind as starts of an array, and as events. Then the texts are
-- looked for in the first start only, because a search of the events takes a pass for each text.
-- index: holdfast_feed (primary key)
-- returns: value
WITH r AS MATERIALIZED (
    SELECT events_json, events_count AS n, substr(events_json, 2, 2 + instr(substr(events_json, 4, 100), '"')) AS start
    FROM holdfast_feed
    WHERE first_offset >= coalesce((SELECT max(first_offset) FROM holdfast_feed
                                    WHERE first_offset <= :after + 1), 0)
      AND first_offset <= :through
), searched AS MATERIALIZED (
    SELECT CASE WHEN length(replace(events_json, '["', '')) = length(events_json) - 2 * n
                 AND length(replace(events_json, start, '')) = length(events_json) - length(start) * n
           THEN start ELSE events_json END AS events FROM r
)
SELECT p.value FROM json_each(:texts) p WHERE EXISTS (SELECT 1 FROM searched WHERE instr(events, p.value) > 0);

-- name: records_by_id
-- index: holdfast_feed (primary key)
-- returns: first_offset events_count events_json
SELECT first_offset, events_count, events_json FROM (SELECT DISTINCT value AS id FROM json_each(:ids)) r
CROSS JOIN holdfast_feed ON first_offset = r.id ORDER BY first_offset;

-- name: count_records
-- Adds a batch of records to the counters, so that no count needs a scan of tasks.
-- index: holdfast_feed (primary key)
INSERT INTO holdfast_counter (project, queue, type, priority, status, n)
SELECT d.value ->> 0, d.value ->> 1, d.value ->> 2, d.value ->> 3, d.value ->> 4, sum(d.value ->> 5) AS n
FROM (SELECT deltas_json FROM holdfast_feed
      WHERE first_offset > (SELECT counted_through FROM holdfast_feed_head)
      ORDER BY first_offset LIMIT :most) f, json_each(f.deltas_json) d
GROUP BY 1, 2, 3, 4, 5 HAVING n <> 0
ON CONFLICT (project, queue, type, priority, status) DO UPDATE SET n = n + excluded.n;

-- name: mark_counted
-- Marks the batch as counted. Returns whether all records are.
-- index: holdfast_feed (primary key)
-- returns: is_done
UPDATE holdfast_feed_head SET counted_through = coalesce(
    (SELECT max(first_offset) FROM (SELECT first_offset FROM holdfast_feed f
     WHERE f.first_offset > holdfast_feed_head.counted_through ORDER BY first_offset LIMIT :most)),
    counted_through)
RETURNING counted_through >= coalesce((SELECT max(first_offset) FROM holdfast_feed), 0) AS is_done;

-- name: new_epoch
-- index: holdfast_feed (primary key)
-- returns: epoch head
UPDATE holdfast_feed_head SET epoch = :epoch
RETURNING epoch, coalesce((SELECT first_offset + events_count - 1 FROM holdfast_feed
                           ORDER BY first_offset DESC LIMIT 1), 0) AS head;

-- name: counters
-- index: holdfast_counter (primary key)
-- returns: queue type priority status n
SELECT queue, type, priority, status, sum(n) AS n FROM holdfast_counter WHERE n <> 0
GROUP BY queue, type, priority, status HAVING sum(n) <> 0;

-- name: project_counters
-- index: holdfast_counter (primary key)
-- returns: queue status n
SELECT queue, status, sum(n) AS n FROM holdfast_counter WHERE project = :project
GROUP BY queue, status HAVING sum(n) <> 0;

-- name: waiting_projects
-- index: holdfast_counter (primary key), read as a whole
-- returns: project n
SELECT project, sum(n) AS n FROM holdfast_counter
WHERE status = 'queued' AND type <> :without GROUP BY project HAVING sum(n) > 0 ORDER BY project;

-- name: adjust_counters
-- index: holdfast_counter (primary key)
INSERT INTO holdfast_counter (project, queue, type, priority, status, n)
SELECT project, queue, type, priority, status, n FROM {rows: project text, queue text, type text,
    priority integer, status text, n integer} WHERE true
ON CONFLICT (project, queue, type, priority, status) DO UPDATE SET n = n + excluded.n;

-- name: prune_feed
-- Deletes a prefix of the counted records, up to the first that is still retained. Times are not in the order of
-- offsets, and the feed must have no gaps. The newest record stays, because the head is read from it.
-- index: holdfast_feed (primary key)
-- returns: first_offset events_count
DELETE FROM holdfast_feed WHERE first_offset IN (
    SELECT first_offset FROM (
        SELECT first_offset, min(at < :before) OVER (ORDER BY first_offset) AS is_old FROM (
            SELECT f.first_offset, f.at FROM holdfast_feed f, holdfast_feed_head h
            WHERE f.first_offset < (SELECT max(first_offset) FROM holdfast_feed)
              AND f.first_offset <= h.counted_through
            ORDER BY f.first_offset LIMIT :limit))
    WHERE is_old)
RETURNING first_offset, events_count;

-- name: forget_before
UPDATE holdfast_feed_head SET oldest = max(oldest, :oldest);

-- name: prune_counters
-- Deletes counters that are zero. A counter that is needed again is inserted again.
-- index: holdfast_counter (primary key)
-- returns: gone
DELETE FROM holdfast_counter WHERE (project, queue, type, priority, status) IN (
    SELECT project, queue, type, priority, status FROM holdfast_counter WHERE n = 0
    LIMIT :limit)
RETURNING 1 AS gone;
