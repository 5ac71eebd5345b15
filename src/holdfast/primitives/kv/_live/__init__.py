"""A live Redis through redis-py: the only part of the store that uses a client library."""
