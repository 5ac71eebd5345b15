-- Hosts that cannot run leave the window of their rollout, and return at their turn.

-- 1: it has left the window. It is not offered until the rollout lets it return.
ALTER TABLE holdfast_execution ADD COLUMN away integer NOT NULL DEFAULT 0;
