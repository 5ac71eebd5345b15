-- Whether an agent said with its newest sync that it takes nothing: it drains, it updates, or its spool is full.
ALTER TABLE holdfast_agent ADD COLUMN is_closed integer NOT NULL DEFAULT 0;
