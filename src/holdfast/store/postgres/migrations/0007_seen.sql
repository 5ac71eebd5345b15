-- Numbering remembers which transactions it could not see: those from next_xid on, and open_xids. It had only
-- the oldest of them (scan_xid), so one that stays open for long (somebody's forgotten session that has written)
-- made each numbering step over all that had been numbered since.
ALTER TABLE holdfast_feed_head
    ADD COLUMN next_xid xid8 NOT NULL DEFAULT '0',
    ADD COLUMN open_xids xid8[] NOT NULL DEFAULT '{}';
-- The one row has a version for every numbering, and while anybody's old snapshot is held none of them can be
-- removed: whoever looks for the last one by this index finds it first. A unique index would be searched for
-- all of them at each update; nothing here ever inserts a second row.
ALTER TABLE holdfast_feed_head DROP CONSTRAINT holdfast_feed_head_pkey;
CREATE INDEX holdfast_feed_head_last ON holdfast_feed_head (head);

CREATE OR REPLACE FUNCTION holdfast_number() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    next xid8;
    open xid8[];
BEGIN
    SELECT next_xid, open_xids INTO next, open FROM holdfast_feed_head ORDER BY head DESC LIMIT 1;
    IF EXISTS (SELECT FROM holdfast_feed WHERE first_offset IS NULL AND xid >= next)
       OR EXISTS (SELECT FROM holdfast_feed WHERE first_offset IS NULL AND xid = ANY(open)) THEN
        SELECT next_xid, open_xids INTO next, open FROM holdfast_feed_head ORDER BY head DESC LIMIT 1 FOR UPDATE;
        -- index: holdfast_feed_unread, holdfast_feed_head_last
        WITH last AS MATERIALIZED (
            SELECT ctid AS place, head FROM holdfast_feed_head ORDER BY head DESC LIMIT 1
        ), found AS (
            SELECT id, ord, events_count FROM holdfast_feed WHERE first_offset IS NULL AND xid >= next
            UNION ALL
            SELECT id, ord, events_count FROM holdfast_feed
            WHERE first_offset IS NULL AND xid = ANY(open) AND xid < next
        ), unread AS MATERIALIZED (
            SELECT f.id, f.events_count,
                last.head + 1 + sum(f.events_count) OVER (ORDER BY f.ord) - f.events_count AS first_offset
            FROM found f, last
        ), numbered AS (
            UPDATE holdfast_feed f SET first_offset = u.first_offset FROM unread u WHERE f.id = u.id
        )
        UPDATE holdfast_feed_head h SET
            head = h.head + coalesce((SELECT sum(events_count) FROM unread), 0),
            scan_xid = pg_snapshot_xmin(pg_current_snapshot()),
            -- No further than this transaction: it may record something yet, and after a crash of the server
            -- no id up to its own is given out again, as those above may be.
            next_xid = least(pg_snapshot_xmax(pg_current_snapshot()), pg_current_xact_id()),
            open_xids = ARRAY(SELECT pg_snapshot_xip(pg_current_snapshot()))
        FROM last WHERE h.ctid = last.place;
    END IF;
END $$;

CREATE OR REPLACE FUNCTION holdfast_count() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF (SELECT head = counted_through FROM holdfast_feed_head ORDER BY head DESC LIMIT 1) THEN
        RETURN;
    END IF;
    PERFORM FROM holdfast_feed_head ORDER BY head DESC LIMIT 1 FOR UPDATE;
    -- index: holdfast_feed_offset, holdfast_feed_head_last
    WITH head AS MATERIALIZED (
        SELECT ctid AS place, head, counted_through FROM holdfast_feed_head ORDER BY head DESC LIMIT 1
    ),
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
    UPDATE holdfast_feed_head h SET counted_through = head.head FROM head WHERE h.ctid = head.place;
END $$;
