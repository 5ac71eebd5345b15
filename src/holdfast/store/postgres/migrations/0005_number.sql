-- Numbering and counting happen inside the server, each as one call. A client that does them statement by
-- statement holds the head of the feed while it is away; one that freezes there would hold up everybody.
-- Within a function each statement has a snapshot of its own, taken after the lock: it sees all that was
-- committed.

CREATE FUNCTION holdfast_number() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM holdfast_feed f, holdfast_feed_head h
               WHERE f.first_offset IS NULL AND f.xid >= h.scan_xid) THEN
        PERFORM FROM holdfast_feed_head FOR UPDATE;
        -- index: holdfast_feed_unread
        WITH head AS MATERIALIZED (SELECT head, scan_xid FROM holdfast_feed_head),
        unread AS MATERIALIZED (
            SELECT f.id, f.events_count,
                head.head + 1 + sum(f.events_count) OVER (ORDER BY f.ord) - f.events_count AS first_offset
            FROM holdfast_feed f, head WHERE f.first_offset IS NULL AND f.xid >= head.scan_xid
        ), numbered AS (
            UPDATE holdfast_feed f SET first_offset = u.first_offset FROM unread u WHERE f.id = u.id
        )
        UPDATE holdfast_feed_head SET
            head = head + coalesce((SELECT sum(events_count) FROM unread), 0),
            scan_xid = pg_snapshot_xmin(pg_current_snapshot());
    END IF;
END $$;

CREATE FUNCTION holdfast_count() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM holdfast_feed_head FOR UPDATE;
    -- index: holdfast_feed_offset
    WITH head AS MATERIALIZED (SELECT head, counted_through FROM holdfast_feed_head),
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
END $$;
