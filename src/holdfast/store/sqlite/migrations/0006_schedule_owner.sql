-- Who a schedule belongs to: 'code' when a task is defined with it, NULL when it was made at run time;
-- and when a node whose code has it last said so.
ALTER TABLE holdfast_schedule ADD COLUMN owner text;
ALTER TABLE holdfast_schedule ADD COLUMN announced_at real;
