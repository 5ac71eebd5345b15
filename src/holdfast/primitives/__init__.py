"""State primitives, each usable alone: key-value, locks, idempotency, retry, and their metrics.

An internal package: applications import `holdfast.kv`, `holdfast.locks`, `holdfast.idempotency` and
`holdfast.retry`. Public are only the modules `prometheus`, `kv.errors` and `locks.errors`.
"""
