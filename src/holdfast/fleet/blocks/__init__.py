"""Use cases and transactions of blocks."""
