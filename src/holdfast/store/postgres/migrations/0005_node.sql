-- Paused queues, registered types and nodes.

CREATE TABLE holdfast_queue (
    name      text PRIMARY KEY,
    paused_at double precision,
    paused_by text,
    reason    text
);

CREATE TABLE holdfast_type (
    name          text PRIMARY KEY,
    queue         text NOT NULL,
    config_json   text NOT NULL,
    registered_at double precision NOT NULL,
    registered_by text NOT NULL
);

CREATE TABLE holdfast_node (
    id         text PRIMARY KEY,
    started_at double precision NOT NULL,
    seen_at    double precision NOT NULL,
    info_json  text NOT NULL,
    -- when the node was declared lost; a node that returns registers again
    lost_at    double precision
);
