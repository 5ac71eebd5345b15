-- Turns between the keys of a fair type (core/turns.py). A task of another type has no fair_key and no entry in the index.
ALTER TABLE holdfast_task ADD COLUMN fair_key text COLLATE "C";
-- The waiting tasks of each key, in order. A lane is what precedes the key; the gate of ready tasks is ''.
CREATE INDEX holdfast_task_fair ON holdfast_task (type, (coalesce(gate, '')), queue, project, priority, fair_key, due_at, nth)
    WHERE status = 'queued' AND fair_key IS NOT NULL;
-- Whose turn it is in each lane, and how many tasks it has started in it.
CREATE TABLE holdfast_turn (
    type     text COLLATE "C" NOT NULL,
    gate     text COLLATE "C" NOT NULL,
    queue    text COLLATE "C" NOT NULL,
    project  text COLLATE "C" NOT NULL,
    priority smallint NOT NULL,
    key      text COLLATE "C" NOT NULL DEFAULT '',
    taken    integer NOT NULL DEFAULT 0,
    used_at  double precision NOT NULL,
    PRIMARY KEY (type, gate, queue, project, priority)
);
CREATE INDEX holdfast_turn_used ON holdfast_turn (used_at);
-- Tasks that a key starts in one turn. A key without a row has weight 1.
CREATE TABLE holdfast_weight (
    type   text COLLATE "C" NOT NULL,
    key    text COLLATE "C" NOT NULL,
    weight integer NOT NULL CHECK (weight BETWEEN 2 AND 1000),
    set_by text NOT NULL,
    set_at double precision NOT NULL,
    PRIMARY KEY (type, key)
);
