"""Fixtures that every test may ask for: the real servers. One that is missing is an error.

Set for all tests: their folders lie on tmpfs, as the servers' data does (no test takes the power away, so
none can tell); the many short processes keep what they have compiled, whatever the environment says; and
they hear an interrupt, which the children of a shell's background job would ignore.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import asyncpg
import hypothesis
import pytest

from proof.lab.folders import scratch
from proof.lab.servers import Postgres, Redis

if TYPE_CHECKING:
    from holdfast.clock import VirtualClock

# Whether a test is quick is never asserted; a busy machine must not make one fail.
hypothesis.settings.register_profile("holdfast", deadline=None)
hypothesis.settings.load_profile("holdfast")

REDLOCK_NODES = 5
MIGRATED = "migrated"

_database_numbers = itertools.count(1)

os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(scratch()))


def pytest_configure(config: pytest.Config) -> None:
    """Files of upper folders come first, in whatever order they are given. pytest 9.1 ties the fixtures of a
    folder's conftest to the first node that it makes for the folder. A file that lies above it and is given
    later makes pytest collect that level again, with other nodes, for which it then finds no fixture."""
    config.args.sort(key=lambda arg: len(Path(arg.partition("::")[0]).resolve().parts))


def pytest_collection_finish() -> None:
    """What two thousand tests are made of stays: the garbage collector need not look at it again."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def clock() -> VirtualClock:
    """Time that the test moves."""
    from holdfast.clock import VirtualClock

    return VirtualClock()


@pytest.fixture(scope="session")
def pg_server() -> Iterator[Postgres]:
    """One PostgreSQL for all tests of a worker. A test that kills a server makes its own."""
    with Postgres() as server:
        yield server


@pytest.fixture(scope="session")
def _pg_migrated(pg_server: Postgres) -> str:
    """A database that holdfast has opened once: to copy it takes a third of the time."""

    from holdfast.clock import SystemClock
    from holdfast.store.backends import store_for

    async def make() -> None:
        admin = await asyncpg.connect(pg_server.dsn())
        await admin.execute(f"create database {MIGRATED}")
        await admin.close()
        store = store_for(pg_server.dsn(MIGRATED), SystemClock())()
        await store.open()
        await store.close()

    asyncio.run(make())
    return MIGRATED


@pytest.fixture
async def pg_dsn(pg_server: Postgres, _pg_migrated: str) -> AsyncIterator[str]:
    """A database for one test, with holdfast's tables and nothing in them."""
    async with database(pg_server, _pg_migrated) as dsn:
        yield dsn


@pytest.fixture
async def pg_empty_dsn(pg_server: Postgres) -> AsyncIterator[str]:
    """A database for one test that holdfast has never seen."""
    async with database(pg_server, "template1") as dsn:
        yield dsn


@asynccontextmanager
async def database(server: Postgres, template: str) -> AsyncIterator[str]:
    name = f"test_{next(_database_numbers)}"
    admin = await asyncpg.connect(server.dsn())
    try:
        await admin.execute(f"create database {name} template {template} strategy file_copy")
        yield server.dsn(name)
        await admin.execute(f"drop database {name} with (force)")
    finally:
        await admin.close()


@pytest.fixture(scope="session")
def redis_server() -> Iterator[Redis]:
    """One Redis for all tests of a worker; `redis_url` is the same one, emptied."""
    with Redis() as server:
        yield server


@pytest.fixture
def redis_url(redis_server: Redis) -> str:
    """An empty Redis for one test."""
    redis_server.reset()
    return redis_server.url


@pytest.fixture(scope="session")
def _redlock_servers() -> Iterator[list[Redis]]:
    servers = [Redis() for _ in range(REDLOCK_NODES)]
    yield servers
    for server in servers:
        server.stop()


@pytest.fixture
def redlock_nodes(_redlock_servers: list[Redis]) -> list[Redis]:
    """Five empty Redis servers that know nothing of each other; a test may kill or pause them."""
    for server in _redlock_servers:
        server.reset()
    return _redlock_servers
