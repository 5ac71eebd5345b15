"""Use cases and transactions of hosts and groups."""
