-- A node that fell silent is told to be lost once; it registers again when it comes back.
ALTER TABLE holdfast_node ADD COLUMN lost_at double precision;
