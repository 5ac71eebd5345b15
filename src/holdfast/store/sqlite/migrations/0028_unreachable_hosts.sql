-- When a host that the server drives could not be reached, at the last attempt. NULL: it was reached, or never tried.
ALTER TABLE holdfast_host ADD COLUMN unreachable_at real;
