"""A gateway for workers on SQLite: gRPC and WebSocket on loopback."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast.clock import SystemClock
from holdfast.core.ids import Ids
from holdfast.store.sqlite.dialect import SqliteDialect
from holdfast.store.sqlite.driver import SqliteDriver
from holdfast.store.store import Store
from tests.integration.worker.support import Gateway


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    driver = SqliteDriver(str(tmp_path / "holdfast.db"), SystemClock())
    store = Store(driver, SqliteDialect(), Ids(random.Random(1)))
    await store.open()
    yield store
    await store.close()


@pytest.fixture
async def gateway(store: Store) -> AsyncIterator[Gateway]:
    async with Gateway(store) as gateway:
        yield gateway
