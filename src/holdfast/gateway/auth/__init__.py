"""Authentication: credentials become principals. Rights are judged by `core.access` in the operations."""
