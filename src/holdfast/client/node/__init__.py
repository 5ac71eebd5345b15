"""A node that works without a connection and syncs later: see `Node`."""
