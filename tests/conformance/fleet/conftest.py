"""The stores under test."""

from tests.conformance.tasks.conftest import (
    any_bench,
    any_shared_bench,
    bench,
    cascade_batch,
    shared_bench,
    store,
)

__all__ = ["any_bench", "any_shared_bench", "bench", "cascade_batch", "shared_bench", "store"]
