"""The stores under test."""

from tests.conformance.tasks.conftest import any_bench, bench, cascade_batch, store

__all__ = ["any_bench", "bench", "cascade_batch", "store"]
