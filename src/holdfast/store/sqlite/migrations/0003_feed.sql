-- The feed: the ordered log of events, and the counters derived from it.

-- One record for each transaction that changed something: its events and counter deltas. With one writer, offsets
-- are assigned on insert, in commit order.
CREATE TABLE holdfast_feed (
    first_offset integer PRIMARY KEY,
    events_count integer NOT NULL,
    at           real NOT NULL,
    events_json  text NOT NULL,
    deltas_json  text NOT NULL
) STRICT;

CREATE TABLE holdfast_feed_head (
    one             integer PRIMARY KEY DEFAULT 1 CHECK (one = 1),
    epoch           text NOT NULL,
    oldest          integer NOT NULL,
    counted_through integer NOT NULL
) STRICT;
INSERT INTO holdfast_feed_head (epoch, oldest, counted_through)
VALUES (lower(hex(randomblob(4))), 1, 0);

CREATE TABLE holdfast_counter (
    project  text NOT NULL,
    queue    text NOT NULL,
    type     text NOT NULL,
    priority integer NOT NULL,
    status   text NOT NULL,
    n        integer NOT NULL,
    PRIMARY KEY (project, queue, type, priority, status)
) STRICT;
