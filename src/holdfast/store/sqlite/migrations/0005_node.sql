-- Paused queues, registered types and nodes.

CREATE TABLE holdfast_queue (
    name      text PRIMARY KEY,
    paused_at real,
    paused_by text,
    reason    text
) STRICT;

CREATE TABLE holdfast_type (
    name          text PRIMARY KEY,
    queue         text NOT NULL,
    config_json   text NOT NULL,
    registered_at real NOT NULL,
    registered_by text NOT NULL
) STRICT;

CREATE TABLE holdfast_node (
    id         text PRIMARY KEY,
    started_at real NOT NULL,
    seen_at    real NOT NULL,
    info_json  text NOT NULL,
    -- when the node was declared lost; a node that returns registers again
    lost_at    real
) STRICT;
