"""The stores under test, with worker sync on top: one suite over every backend."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast.clock import VirtualClock
from holdfast.store.store import Store
from holdfast.sync.worker.worker_sync import WorkerSync
from tests.backends import SQL, Bench, make_bench


@pytest.fixture(params=SQL)
def any_bench(request: pytest.FixtureRequest, clock: VirtualClock, tmp_path: Path) -> Bench:
    return make_bench(request.param, request, clock, tmp_path)


@pytest.fixture
async def bench(any_bench: Bench) -> AsyncIterator[Bench]:
    yield any_bench
    await any_bench.close()


@pytest.fixture
async def store(bench: Bench) -> Store:
    return await bench.open()


@pytest.fixture
def sync(store: Store, clock: VirtualClock) -> WorkerSync:
    return WorkerSync(store, clock, gather_seconds=0.0)
