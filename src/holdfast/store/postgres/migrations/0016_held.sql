-- A child that another transaction held when it was to hear of a parent that had ended or come back. A sweeper tells
-- it when it is free; the row goes then. Written and removed only by transactions that have locked the parent.

CREATE TABLE holdfast_cascade_held (
    parent_id text COLLATE "C" NOT NULL,
    child_id  text COLLATE "C" NOT NULL,
    PRIMARY KEY (parent_id, child_id)
);
