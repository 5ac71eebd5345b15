"""The stores under test: one suite over every backend, with a clock that the test moves."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast.clock import VirtualClock
from holdfast.store.scripts.cascade import BATCH
from holdfast.store.store import Store
from tests.backends import SHARED, SQL, Bench, make_bench


@pytest.fixture
def cascade_batch() -> int:
    """Edges to dependents that one transaction reads. Tests parametrize it."""
    return BATCH


@pytest.fixture(params=SQL)
def any_bench(
    request: pytest.FixtureRequest, clock: VirtualClock, tmp_path: Path, cascade_batch: int
) -> Bench:
    return make_bench(request.param, request, clock, tmp_path, cascade_batch)


@pytest.fixture
async def bench(any_bench: Bench) -> AsyncIterator[Bench]:
    yield any_bench
    await any_bench.close()


@pytest.fixture(params=SHARED)
def any_shared_bench(
    request: pytest.FixtureRequest, clock: VirtualClock, tmp_path: Path, cascade_batch: int
) -> Bench:
    return make_bench(request.param, request, clock, tmp_path, cascade_batch)


@pytest.fixture
async def shared_bench(any_shared_bench: Bench) -> AsyncIterator[Bench]:
    yield any_shared_bench
    await any_shared_bench.close()


@pytest.fixture
async def store(bench: Bench) -> Store:
    return await bench.open()
