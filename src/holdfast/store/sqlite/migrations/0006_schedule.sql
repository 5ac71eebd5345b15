-- Schedules.

CREATE TABLE holdfast_schedule (
    name         text PRIMARY KEY,
    type         text NOT NULL,
    queue        text NOT NULL,
    spec         text NOT NULL,
    timezone     text NOT NULL,
    payload_json text NOT NULL,
    priority     integer NOT NULL,
    next_at      real NOT NULL,
    fired_at     real,
    paused       integer NOT NULL DEFAULT 0,
    -- 'code' when a task is defined with it, NULL when it was made at run time
    owner        text,
    -- when a node whose code has it last said so
    announced_at real
) STRICT;
