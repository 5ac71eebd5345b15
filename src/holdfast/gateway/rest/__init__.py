"""REST: `/api/v1` as a table of routes over the operations, with problem details (RFC 9457)."""
