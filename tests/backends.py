"""The backends that tests run on. This is the only list of them.

    @pytest.fixture(params=SQL)
    def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
        return url_of(request.param, request, tmp_path)

The fixtures of `tests/conftest.py` start PostgreSQL and Redis.
"""

from __future__ import annotations

import random
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import asyncpg
import pytest

from holdfast.clock import VirtualClock
from holdfast.core.ids import Ids
from holdfast.store.postgres import connection as postgres
from holdfast.store.postgres.dialect import PostgresDialect
from holdfast.store.postgres.driver import PostgresDriver
from holdfast.store.scripts.cascade import BATCH
from holdfast.store.sqlite import connection as sqlite
from holdfast.store.sqlite.dialect import SqliteDialect
from holdfast.store.sqlite.driver import SqliteDriver
from holdfast.store.store import Store

SHARED = ("sqlite-file", "postgres")
"""Backends on which several stores, in several processes, can use the same data."""
SQL = ("sqlite-memory", *SHARED)
LEASES = ("memory", *SQL)
"""Backends of locks and of the ledger."""
LASTING_ORDERS = ("durable-memory", "durable-redis", *SHARED)
"""Order stores that can be closed and opened again."""
ORDERS = ("memory", "sqlite-memory", *LASTING_ORDERS)
REDIS = ("redis", "valkey")
KV = ("memory", *REDIS)


def url_of(backend: str, request: pytest.FixtureRequest, folder: Path) -> str:
    """The URL of one of `LEASES`."""
    match backend:
        case "memory":
            return "memory://"
        case "sqlite-memory":
            return "sqlite://"
        case "sqlite-file":
            return f"sqlite:///{migrated_file(folder)}"
        case "postgres":
            dsn: str = request.getfixturevalue("pg_dsn")
            return dsn
    raise LookupError(backend)


def migrated_file(folder: Path) -> Path:
    """A SQLite file with the empty tables of Holdfast, as `pg_dsn` is a database with them. A copy takes a
    fraction of the time of a migration."""
    path = folder / "holdfast.db"
    if not path.exists():
        path.write_bytes(_migrated())
        path.chmod(0o600)
    return path


@cache
def _migrated() -> bytes:
    with TemporaryDirectory(prefix="holdfast-template-") as folder:
        path = Path(folder) / "holdfast.db"
        connection = sqlite.connect(str(path))
        sqlite.migrate(connection)
        connection.close()
        return path.read_bytes()


class Bench:
    """A backend that can open any number of stores on the same data."""

    def __init__(self, clock: VirtualClock, cascade_batch: int = BATCH) -> None:
        self.clock = clock
        self.cascade_batch = cascade_batch
        """Applies to stores that are made from now on."""
        self._seeds = 0
        self._stores: list[Store] = []

    def make(self) -> Store:
        """Makes a store and does not open it."""
        raise NotImplementedError

    async def open(self) -> Store:
        store = self.make()
        await store.open()
        self._stores.append(store)
        return store

    async def close(self) -> None:
        for store in self._stores:
            await store.close()
        self._stores.clear()

    async def sql(self, text: str) -> list[Any]:
        """Runs SQL in the database directly, as an operator might."""
        raise NotImplementedError

    def _ids(self) -> Ids:
        self._seeds += 1
        return Ids(random.Random(self._seeds))


class SqliteBench(Bench):
    def __init__(self, clock: VirtualClock, path: str, cascade_batch: int = BATCH) -> None:
        super().__init__(clock, cascade_batch)
        self._path = path

    def make(self) -> Store:
        dialect = SqliteDialect(self.cascade_batch)
        return Store(SqliteDriver(self._path, self.clock), dialect, self._ids())

    async def sql(self, text: str) -> list[Any]:
        driver = self._stores[0]._driver
        assert isinstance(driver, SqliteDriver)
        assert driver._writer is not None
        return list(driver._writer.execute(text))


INSANE = """
SELECT id FROM holdfast_task WHERE priority NOT BETWEEN 0 AND 3
    OR status NOT IN ('blocked', 'queued', 'running', 'paused', 'stuck', 'completed', 'failed', 'aborted')
    OR (status IN ('running', 'stuck')) <> (lease_until IS NOT NULL)
    OR (status IN ('completed', 'failed', 'aborted')) <> (finished_at IS NOT NULL)
"""
"""Selects rows that the CHECKs of SQLite would refuse. PostgreSQL has none (see migration 0001)."""


class PostgresBench(Bench):
    def __init__(self, clock: VirtualClock, dsn: str, cascade_batch: int = BATCH) -> None:
        super().__init__(clock, cascade_batch)
        self.dsn = dsn

    def make(self) -> Store:
        driver = PostgresDriver(self.dsn, self.clock, server_time=False)
        dialect = PostgresDialect(self.clock.monotonic, self.cascade_batch)
        return Store(driver, dialect, self._ids())

    async def close(self) -> None:
        rows = await self._insane() if self._stores else []
        await super().close()
        assert rows == []

    async def _insane(self) -> list[Any]:
        """Takes a connection of a store if one is free: a new one takes longer than most tests."""
        driver = self._stores[0]._driver
        assert isinstance(driver, PostgresDriver)
        pool = driver._pools.here()
        connection = None if pool is None else pool.take_idle(rank=driver._rank)
        if pool is None or connection is None:
            return await self.sql(INSANE)
        try:
            rows = await connection.fetch(INSANE)
        except postgres.GONE as error:
            pool.back(connection, error)
            return await self.sql(INSANE)
        pool.back(connection)
        return rows

    async def sql(self, text: str) -> list[Any]:
        connection = await asyncpg.connect(self.dsn)
        try:
            return [tuple(row) for row in await connection.fetch(text)]
        finally:
            await connection.close()


def make_bench(
    backend: str,
    request: pytest.FixtureRequest,
    clock: VirtualClock,
    folder: Path,
    cascade_batch: int = BATCH,
) -> Bench:
    """Makes the bench of one of `SQL`."""
    if backend == "postgres":
        return PostgresBench(clock, request.getfixturevalue("pg_dsn"), cascade_batch)
    path = "" if backend == "sqlite-memory" else str(migrated_file(folder))
    return SqliteBench(clock, path, cascade_batch)
