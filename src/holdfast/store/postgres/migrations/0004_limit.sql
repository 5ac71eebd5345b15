-- Limits on concurrency and rate.

CREATE TABLE holdfast_limit (
    name       text PRIMARY KEY,
    rule_json  text NOT NULL,
    running    integer NOT NULL DEFAULT 0 CHECK (running >= 0),
    parked     integer NOT NULL DEFAULT 0 CHECK (parked >= 0),
    full_until double precision NOT NULL DEFAULT 0,
    opens_at   double precision,
    -- creation time of the task whose rule is in force; the youngest task sets the rule
    rule_at    double precision NOT NULL DEFAULT 0
);
CREATE INDEX holdfast_limit_opens ON holdfast_limit (opens_at) WHERE opens_at IS NOT NULL;
