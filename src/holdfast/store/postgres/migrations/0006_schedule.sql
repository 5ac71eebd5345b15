-- Schedules.

CREATE TABLE holdfast_schedule (
    name         text PRIMARY KEY,
    type         text NOT NULL,
    queue        text NOT NULL,
    spec         text NOT NULL,
    timezone     text NOT NULL,
    payload_json text NOT NULL,
    priority     smallint NOT NULL,
    next_at      double precision NOT NULL,
    fired_at     double precision,
    paused       smallint NOT NULL DEFAULT 0,
    -- 'code' if a task definition has the schedule, NULL if it was created at run time
    owner        text,
    -- when a node last announced the schedule
    announced_at double precision
);
