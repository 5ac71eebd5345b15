-- Numbering and counting in batches. All unread records at once may be more than one statement can do in its time
-- (nothing is read while the workers are down and tasks come in with callers' transactions): then each try was
-- rolled back. Both functions say whether they are done.
--
-- The head also remembers which database it belongs to: after a restore or a promotion it is another one.
ALTER TABLE holdfast_feed_head ADD COLUMN identity text NOT NULL DEFAULT '';
-- Pruning could leave records behind that are older than the oldest that is kept.
DELETE FROM holdfast_feed WHERE first_offset < (SELECT oldest FROM holdfast_feed_head);

CREATE FUNCTION holdfast_number(most integer) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    next xid8;
    open xid8[];
    is_done boolean;
BEGIN
    SELECT next_xid, open_xids INTO next, open FROM holdfast_feed_head ORDER BY head DESC LIMIT 1;
    IF NOT EXISTS (SELECT FROM holdfast_feed WHERE first_offset IS NULL AND xid >= next)
       AND NOT EXISTS (SELECT FROM holdfast_feed WHERE first_offset IS NULL AND xid = ANY(open)) THEN
        RETURN true;
    END IF;
    SELECT next_xid, open_xids INTO next, open FROM holdfast_feed_head ORDER BY head DESC LIMIT 1 FOR UPDATE;
    -- The first of them in the order of `ord`. Those that are left have been committed, and so has whatever
    -- they followed; so a later batch cannot bring anything that belonged before this one.
    -- index: holdfast_feed_unread, holdfast_feed_head_last
    WITH last AS MATERIALIZED (
        SELECT ctid AS place, head FROM holdfast_feed_head ORDER BY head DESC LIMIT 1
    ), found AS (
        SELECT id, ord, events_count FROM holdfast_feed WHERE first_offset IS NULL AND xid >= next
        UNION ALL
        SELECT id, ord, events_count FROM holdfast_feed
        WHERE first_offset IS NULL AND xid = ANY(open) AND xid < next
    ), batch AS MATERIALIZED (
        SELECT id, ord, events_count FROM found ORDER BY ord LIMIT most
    ), unread AS MATERIALIZED (
        SELECT f.id, f.events_count,
            last.head + 1 + sum(f.events_count) OVER (ORDER BY f.ord) - f.events_count AS first_offset
        FROM batch f, last
    ), numbered AS (
        UPDATE holdfast_feed f SET first_offset = u.first_offset FROM unread u WHERE f.id = u.id
    ), sums AS (
        SELECT coalesce(sum(events_count), 0) AS facts, count(*) < most AS is_all FROM unread
    )
    UPDATE holdfast_feed_head h SET
        head = h.head + sums.facts,
        -- What is left of a batch is looked for again from where this one began.
        scan_xid = CASE WHEN is_all THEN pg_snapshot_xmin(pg_current_snapshot()) ELSE scan_xid END,
        -- No further than this transaction: it may record something yet, and after a crash of the server
        -- no id up to its own is given out again, as those above may be.
        next_xid = CASE WHEN is_all THEN least(pg_snapshot_xmax(pg_current_snapshot()), pg_current_xact_id())
                        ELSE next_xid END,
        open_xids = CASE WHEN is_all THEN ARRAY(SELECT pg_snapshot_xip(pg_current_snapshot()))
                         ELSE open_xids END
    FROM last, sums WHERE h.ctid = last.place
    RETURNING sums.is_all INTO is_done;
    RETURN is_done;
END $$;

CREATE FUNCTION holdfast_count(most integer) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    is_done boolean;
BEGIN
    IF (SELECT head = counted_through FROM holdfast_feed_head ORDER BY head DESC LIMIT 1) THEN
        RETURN true;
    END IF;
    PERFORM FROM holdfast_feed_head ORDER BY head DESC LIMIT 1 FOR UPDATE;
    -- index: holdfast_feed_offset, holdfast_feed_head_last
    WITH head AS MATERIALIZED (
        SELECT ctid AS place, head, counted_through FROM holdfast_feed_head ORDER BY head DESC LIMIT 1
    ), batch AS MATERIALIZED (
        SELECT f.first_offset + f.events_count - 1 AS last_offset, f.deltas_json FROM head, holdfast_feed f
        WHERE f.first_offset > head.counted_through AND f.first_offset <= head.head
        ORDER BY f.first_offset LIMIT most
    ), delta AS (
        SELECT d ->> 0 AS queue, d ->> 1 AS type, (d ->> 2)::smallint AS priority, d ->> 3 AS status,
            sum((d ->> 4)::bigint) AS n
        FROM batch, json_array_elements(batch.deltas_json::json) d
        GROUP BY 1, 2, 3, 4
    ), added AS (
        INSERT INTO holdfast_counter AS c (queue, type, priority, status, n)
        SELECT queue, type, priority, status, n FROM delta WHERE n <> 0
        ON CONFLICT (queue, type, priority, status) DO UPDATE SET n = c.n + excluded.n
    ), sums AS (
        SELECT count(*) < most AS is_all, max(last_offset) AS last_offset FROM batch
    )
    UPDATE holdfast_feed_head h SET
        counted_through = CASE WHEN sums.is_all THEN head.head ELSE sums.last_offset END
    FROM head, sums WHERE h.ctid = head.place
    RETURNING sums.is_all INTO is_done;
    RETURN is_done;
END $$;
