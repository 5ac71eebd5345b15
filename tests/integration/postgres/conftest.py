"""A store on PostgreSQL with a clock that the test moves."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from holdfast.clock import VirtualClock
from holdfast.store.scripts.cascade import BATCH
from holdfast.store.store import Store
from tests.backends import PostgresBench


@pytest.fixture
def cascade_batch() -> int:
    """Edges to dependents that one transaction looks at."""
    return BATCH


@pytest.fixture
async def bench(
    clock: VirtualClock, pg_dsn: str, cascade_batch: int
) -> AsyncIterator[PostgresBench]:
    bench = PostgresBench(clock, pg_dsn, cascade_batch)
    yield bench
    await bench.close()


@pytest.fixture
async def store(bench: PostgresBench) -> Store:
    return await bench.open()
