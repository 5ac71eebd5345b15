-- A child that another transaction held when it was to hear of a parent that had ended or come back. With one writer
-- there is none; the table is here so that the statements are the same.

CREATE TABLE holdfast_cascade_held (
    parent_id text NOT NULL,
    child_id  text NOT NULL,
    PRIMARY KEY (parent_id, child_id)
) STRICT;
