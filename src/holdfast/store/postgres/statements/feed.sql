-- The feed: one record for each transaction. Offsets are assigned when the feed is read.
-- A sequence is not in commit order, so a reader first assigns offsets to all records committed since the last read.
-- `ord` is drawn by the last statement of a transaction, when all its row locks are held. So of two transactions
-- that change one task, the later has the higher `ord`.

-- name: schema_number
-- The last migration of the store.
-- returns: number
SELECT max(number) AS number FROM holdfast_migration;

-- name: append_record
-- index: holdfast_feed_pkey
INSERT INTO holdfast_feed (id, events_count, at, events_json, deltas_json)
VALUES (:record_id::text::bigint, :events_count::int, :now::float8, :events_json::text, :deltas_json::text);

-- name: hint
-- returns: hinted
SELECT pg_notify(CASE split_part(:hint::text, ' ', 1) WHEN 'work' THEN 'holdfast_work' ELSE 'holdfast' END,
    :hint::text) AS hinted;

-- name: number_records
-- Assigns offsets to a batch of records. Returns whether none is left. See migration 0003.
-- index: holdfast_feed_unread
-- returns: is_done
SELECT holdfast_number(:most::int) AS is_done;

-- name: may_identify
-- Whether this role may run `identity`. PostgreSQL checks function privileges when a statement starts, so a CASE
-- inside that statement cannot avoid the error.
-- returns: may
SELECT bool_and(coalesce(has_function_privilege(to_regprocedure('pg_catalog.' || f), 'EXECUTE'), false)) AS may
FROM unnest(ARRAY['pg_control_system()', 'pg_current_wal_lsn()', 'pg_walfile_name(pg_lsn)']) f;

-- name: identity
-- Identifies the database. A restored database and a promoted standby have another identity. The result is NULL if
-- the table does not exist. Needs the privileges that `may_identify` checks.
-- returns: identity
SELECT c.system_identifier || '-' || CASE WHEN pg_is_in_recovery() THEN ''
        ELSE left(pg_walfile_name(pg_current_wal_lsn()), 8) END || '-' || d.oid
    || '-' || to_regclass('holdfast_feed_head')::oid AS identity
FROM pg_control_system() c, pg_database d WHERE d.datname = current_database();

-- name: identity_here
-- As `identity`, but only the parts that need no privileges.
-- returns: identity
SELECT d.oid || '-' || to_regclass('holdfast_feed_head')::oid AS identity
FROM pg_database d WHERE d.datname = current_database();

-- name: adopt_feed
-- Sets the identity, if it is still the one that was compared. Returns the current one.
-- After a restore or a promotion, commits that the backup or the standby did not have are gone, so readers must
-- start over, and the stored transaction ids belong to another server.
-- After a crash of the same server, transaction ids that were assigned but not written may be reused. Then it is
-- enough to scan again from the oldest transaction that was open.
-- returns: identity
WITH adopted AS (
    UPDATE holdfast_feed_head h SET identity = :identity::text, open_xids = ARRAY[]::xid8[],
        scan_xid = CASE WHEN :is_other::bool OR h.scan_xid > x.next THEN '0' ELSE scan_xid END,
        next_xid = CASE WHEN :is_other::bool OR h.scan_xid > x.next THEN '0' ELSE scan_xid END,
        epoch = CASE WHEN :is_other::bool OR h.scan_xid > x.next
                     THEN substr(md5(random()::text || clock_timestamp()::text), 1, 8) ELSE epoch END
    FROM (SELECT pg_snapshot_xmax(pg_current_snapshot()) AS next) x
    WHERE h.identity = :before::text
      AND (h.identity <> :identity::text OR h.scan_xid > x.next OR h.next_xid > x.next)
    RETURNING h.identity
)
SELECT coalesce((SELECT identity FROM adopted), (SELECT identity FROM holdfast_feed_head)) AS identity;

-- name: new_epoch
-- index: holdfast_feed_head_last
-- returns: epoch head
UPDATE holdfast_feed_head SET epoch = :epoch::text RETURNING epoch, head;

-- name: feed_position
-- index: holdfast_feed_head_last
-- returns: epoch head oldest
SELECT epoch, head, oldest FROM holdfast_feed_head ORDER BY head DESC LIMIT 1;

-- name: read_records
-- The records of one page, starting with the record that contains the next offset.
-- index: holdfast_feed_offset
-- returns: first_offset events_count events_json
SELECT first_offset, events_count, events_json FROM holdfast_feed
WHERE first_offset >= coalesce((SELECT max(first_offset) FROM holdfast_feed
                                WHERE first_offset <= :after::bigint + 1), 0)
  AND first_offset + events_count > :after::bigint + 1
  AND first_offset <= :after::bigint + :limit::int
ORDER BY first_offset LIMIT :limit::int;

-- name: skim_records
-- Which of the texts the records from the one with the next offset through another offset contain. Most records have
-- events of one kind: as many starts of an event of that kind as starts of an array, and as events. Then the texts are
-- looked for in the first start only, because a search of the events takes a pass for each text.
-- index: holdfast_feed_offset
-- returns: value
WITH r AS MATERIALIZED (
    SELECT events_json, events_count AS n, '["' || split_part(left(events_json, 100), '"', 2) || '"' AS start
    FROM holdfast_feed
    WHERE first_offset >= coalesce((SELECT max(first_offset) FROM holdfast_feed
                                    WHERE first_offset <= :after::bigint + 1), 0)
      AND first_offset <= :through::bigint
), searched AS MATERIALIZED (
    SELECT CASE WHEN octet_length(replace(events_json, '["', '')) = octet_length(events_json) - 2 * n
                 AND octet_length(replace(events_json, start, '')) = octet_length(events_json) - octet_length(start) * n
           THEN start ELSE events_json END AS events FROM r
)
SELECT p.value FROM unnest(:texts::text[]) AS p (value)
WHERE EXISTS (SELECT 1 FROM searched WHERE strpos(events, p.value) > 0);

-- name: records_by_id
-- index: holdfast_feed_pkey
-- returns: first_offset events_count events_json
SELECT first_offset, events_count, events_json FROM holdfast_feed
WHERE id = ANY(:ids::bigint[]) ORDER BY first_offset, ord;

-- name: count_records
-- Adds a batch of records to the counters, so that no count needs a scan of tasks. Returns whether all are counted.
-- index: holdfast_feed_offset
-- returns: is_done
SELECT holdfast_count(:most::int) AS is_done;

-- name: counters
-- index: holdfast_counter_pkey
-- returns: queue type priority status n
SELECT queue, type, priority, status, sum(n)::bigint AS n FROM holdfast_counter WHERE n <> 0
GROUP BY queue, type, priority, status HAVING sum(n) <> 0;

-- name: waiting_projects
-- index: holdfast_counter (primary key), read as a whole
-- returns: project n
SELECT project, sum(n)::bigint AS n FROM holdfast_counter
WHERE status = 'queued' AND type <> :without::text GROUP BY project HAVING sum(n) > 0 ORDER BY project;

-- name: project_counters
-- index: holdfast_counter_pkey
-- returns: queue status n
SELECT queue, status, sum(n)::bigint AS n FROM holdfast_counter WHERE project = :project::text
GROUP BY queue, status HAVING sum(n) <> 0;

-- name: prune_feed
-- Deletes a prefix of the counted records, up to the first that is still retained. Times are not in the order of
-- offsets, and the feed must have no gaps. The newest record stays. The same statement advances the oldest offset.
-- index: holdfast_feed_offset, holdfast_feed_head_last
-- returns: gone
WITH first AS MATERIALIZED (
    SELECT f.id, f.first_offset, f.at FROM holdfast_feed f,
        (SELECT head, oldest, counted_through FROM holdfast_feed_head ORDER BY head DESC LIMIT 1) h
    WHERE f.first_offset >= h.oldest AND f.first_offset <= h.counted_through
      AND f.first_offset + f.events_count - 1 < h.head
    ORDER BY f.first_offset LIMIT :limit::int
), gone AS (
    DELETE FROM holdfast_feed WHERE id IN (
        SELECT id FROM (
            SELECT id, bool_and(at < :before::float8) OVER (ORDER BY first_offset) AS is_old FROM first) o
        WHERE is_old)
    RETURNING first_offset, events_count
), forgotten AS (
    UPDATE holdfast_feed_head h SET oldest = greatest(h.oldest, g.oldest)
    FROM (SELECT max(first_offset + events_count) AS oldest FROM gone) g WHERE g.oldest IS NOT NULL
)
SELECT count(*) AS gone FROM gone;

-- name: prune_counters
-- Deletes counters that are zero. A counter that is needed again is inserted again.
-- index: holdfast_counter_pkey
-- returns: gone
DELETE FROM holdfast_counter WHERE (project, queue, type, priority, status) IN (
    SELECT project, queue, type, priority, status FROM holdfast_counter WHERE n = 0
    LIMIT :limit::int FOR UPDATE SKIP LOCKED)
RETURNING 1 AS gone;
