-- The feed: the ordered log of events, and the counters derived from it.

-- One record for each transaction that changed something: its events and counter deltas. first_offset is assigned
-- when the record is first read, in an order consistent with commits (see feed.sql).
CREATE TABLE holdfast_feed (
    id           bigint PRIMARY KEY,
    ord          bigint GENERATED ALWAYS AS IDENTITY,
    xid          xid8 NOT NULL DEFAULT pg_current_xact_id(),
    first_offset bigint,
    events_count integer NOT NULL,
    at           double precision NOT NULL,
    events_json  text NOT NULL,
    deltas_json  text NOT NULL
);
CREATE UNIQUE INDEX holdfast_feed_offset ON holdfast_feed (first_offset) WHERE first_offset IS NOT NULL;
CREATE INDEX holdfast_feed_unread ON holdfast_feed (xid) WHERE first_offset IS NULL;

CREATE TABLE holdfast_feed_head (
    one             boolean NOT NULL DEFAULT true CHECK (one),
    epoch           text NOT NULL,
    head            bigint NOT NULL,
    oldest          bigint NOT NULL,
    scan_xid        xid8 NOT NULL,
    counted_through bigint NOT NULL,
    -- transactions that the last assignment of offsets did not see: open_xids, and all from next_xid on
    next_xid        xid8 NOT NULL DEFAULT '0',
    open_xids       xid8[] NOT NULL DEFAULT '{}',
    -- identity of the database; it changes with a restore or a promotion
    identity        text NOT NULL DEFAULT ''
);
-- Each assignment of offsets leaves a dead version of the one row, and vacuum cannot remove it while an old snapshot
-- exists. This index finds the newest version first. A unique index would visit all versions on each update, and is
-- not needed: no statement inserts a second row.
CREATE INDEX holdfast_feed_head_last ON holdfast_feed_head (head);
INSERT INTO holdfast_feed_head (epoch, head, oldest, scan_xid, counted_through)
VALUES (substr(md5(random()::text || clock_timestamp()::text), 1, 8), 0, 1, '0'::xid8, 0);

CREATE TABLE holdfast_counter (
    project  text NOT NULL,
    queue    text NOT NULL,
    type     text NOT NULL,
    priority smallint NOT NULL,
    status   text NOT NULL,
    n        bigint NOT NULL,
    PRIMARY KEY (project, queue, type, priority, status)
);

-- Assigning offsets and counting are server functions, one call each. A client that ran them statement by statement
-- would hold the lock on the feed head between statements, and a stalled client would block all others. Inside a
-- function each statement takes its snapshot after the lock, so it sees everything committed before. Both work in
-- batches and return whether they are done, so a backlog of any length stays within the statement timeout.

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
    -- The first records in the order of `ord`. The remaining ones are committed, and so are all that precede them;
    -- so no later batch contains a record that belongs before this batch.
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
        SELECT coalesce(sum(events_count), 0) AS events, count(*) < most AS is_all FROM unread
    )
    UPDATE holdfast_feed_head h SET
        head = h.head + sums.events,
        -- After a partial batch, the next scan starts where this one did.
        scan_xid = CASE WHEN is_all THEN pg_snapshot_xmin(pg_current_snapshot()) ELSE scan_xid END,
        -- Not beyond this transaction: it may still write a record. After a server crash, ids above its own may be
        -- assigned again, but not ids up to it.
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
        SELECT d ->> 0 AS project, d ->> 1 AS queue, d ->> 2 AS type, (d ->> 3)::smallint AS priority,
            d ->> 4 AS status, sum((d ->> 5)::bigint) AS n
        FROM batch, json_array_elements(batch.deltas_json::json) d
        GROUP BY 1, 2, 3, 4, 5
    ), added AS (
        INSERT INTO holdfast_counter AS c (project, queue, type, priority, status, n)
        SELECT project, queue, type, priority, status, n FROM delta WHERE n <> 0
        ON CONFLICT (project, queue, type, priority, status) DO UPDATE SET n = c.n + excluded.n
    ), sums AS (
        SELECT count(*) < most AS is_all, max(last_offset) AS last_offset FROM batch
    )
    UPDATE holdfast_feed_head h SET
        counted_through = CASE WHEN sums.is_all THEN head.head ELSE sums.last_offset END
    FROM head, sums WHERE h.ctid = head.place
    RETURNING sums.is_all INTO is_done;
    RETURN is_done;
END $$;
