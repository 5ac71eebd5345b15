-- The feed: one record for each transaction, numbered when first read.
-- A sequence is not in commit order, so records get their offsets afterwards: whoever reads first numbers
-- what has been committed since. `ord` is drawn by the last statement of a transaction, when all its row
-- locks are held; so of two transactions that touch one task, the later has the higher `ord`.

-- name: record_facts
-- index: holdfast_feed_pkey
INSERT INTO holdfast_feed (id, events_count, at, events_json, deltas_json)
VALUES (:record_id::text::bigint, :events_count::int, :now::float8, :events_json::text, :deltas_json::text);

-- name: hint
-- returns: hinted
SELECT pg_notify(CASE split_part(:hint::text, ' ', 1) WHEN 'work' THEN 'holdfast_work' ELSE 'holdfast' END,
    :hint::text) AS hinted;

-- name: number_records
-- A batch of them; whether none is left. The function is in migration 0003, which says why it is one.
-- index: holdfast_feed_unread
-- returns: is_done
SELECT holdfast_number(:most::int) AS is_done;

-- name: may_identify
-- Whether this role may ask for the whole identity. A right that is missing is found when a statement begins, so
-- no CASE inside of it helps: the question comes first.
-- returns: may
SELECT bool_and(coalesce(has_function_privilege(to_regprocedure('pg_catalog.' || f), 'EXECUTE'), false)) AS may
FROM unnest(ARRAY['pg_control_system()', 'pg_current_wal_lsn()', 'pg_walfile_name(pg_lsn)']) f;

-- name: identity
-- Which database this is: a restored one, and a standby that was promoted, is another one. The oid of the table
-- is null where there is none. Needs what `may_identify` asks for.
-- returns: identity
SELECT c.system_identifier || '-' || CASE WHEN pg_is_in_recovery() THEN ''
        ELSE left(pg_walfile_name(pg_current_wal_lsn()), 8) END || '-' || d.oid
    || '-' || to_regclass('holdfast_feed_head')::oid AS identity
FROM pg_control_system() c, pg_database d WHERE d.datname = current_database();

-- name: identity_here
-- The same as far as every role knows it. Needs no rights.
-- returns: identity
SELECT d.oid || '-' || to_regclass('holdfast_feed_head')::oid AS identity
FROM pg_database d WHERE d.datname = current_database();

-- name: adopt_feed
-- Only if the identity is still the one that was compared; the one that stands there now.
-- A database that was restored, or a standby that was promoted: what was committed after the backup, or had not
-- reached the standby, is gone, so readers must start over. Transaction ids of another server mean nothing here.
-- Ids that were given out but not written may be given out again after a crash of this very server: then
-- it is enough to look from the oldest on that was open.
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
-- From the record that holds the next offset on, as far as the page goes.
-- index: holdfast_feed_offset
-- returns: first_offset events_count events_json
SELECT first_offset, events_count, events_json FROM holdfast_feed
WHERE first_offset >= coalesce((SELECT max(first_offset) FROM holdfast_feed
                                WHERE first_offset <= :after::bigint + 1), 0)
  AND first_offset + events_count > :after::bigint + 1
  AND first_offset <= :after::bigint + :limit::int
ORDER BY first_offset LIMIT :limit::int;

-- name: records_by_id
-- index: holdfast_feed_pkey
-- returns: first_offset events_count events_json
SELECT first_offset, events_count, events_json FROM holdfast_feed
WHERE id = ANY(:ids::bigint[]) ORDER BY first_offset, ord;

-- name: count_records
-- Folds what a batch of the records says into the counters, so that no figure needs a scan of tasks; whether all
-- are counted.
-- index: holdfast_feed_offset
-- returns: is_done
SELECT holdfast_count(:most::int) AS is_done;

-- name: counters
-- index: holdfast_counter_pkey
-- returns: queue type priority status n
SELECT queue, type, priority, status, n FROM holdfast_counter WHERE n <> 0;

-- name: prune_feed
-- A prefix of the counted records, up to the first that is to stay: times are not in the order of offsets, and
-- a hole would be a lie to readers. The newest stays, so that the head is never forgotten. From where on the
-- feed is whole is said in the same statement.
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
