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
    -- 'code' if a task definition has the schedule, NULL if it was created at run time
    owner        text,
    -- when a node last announced the schedule
    announced_at real
) STRICT;
