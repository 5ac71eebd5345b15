"""A live Redis, through redis-py: the one part of the store that knows a client library."""
