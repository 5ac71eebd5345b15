"""State primitives, each usable alone: key-value, locks, idempotency, retry, and their metrics."""
