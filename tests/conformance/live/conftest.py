"""The stores under test."""

from tests.conformance.tasks.conftest import (  # noqa: F401
    any_bench,
    any_shared_bench,
    bench,
    cascade_batch,
    shared_bench,
    store,
)
