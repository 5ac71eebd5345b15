"""Fixtures for all tests: real servers. A missing server is an error, not a skip.

Settings for all tests: temporary folders and the data of the servers are on tmpfs, because no test simulates
a power loss. The many short processes cache their bytecode, regardless of the environment. SIGINT is handled,
which the children of a background job in a shell would ignore.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import asyncpg
import hypothesis
import psycopg
import pytest

from proof.lab.folders import scratch
from proof.lab.servers import Postgres, Redis
from tests.spread import spread

if TYPE_CHECKING:
    from holdfast.clock import VirtualClock

# No test asserts how fast it is: a busy machine must not make one fail.
hypothesis.settings.register_profile("holdfast", deadline=None)
hypothesis.settings.load_profile("holdfast")

HEAVY = frozenset({"tests/sim/test_campaign.py"})
REDLOCK_NODES = 5
Admin: TypeAlias = "psycopg.Connection[tuple[object, ...]]"
MIGRATED = "migrated"

_database_numbers = itertools.count(1)

os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(scratch()))


def pytest_configure(config: pytest.Config) -> None:
    """Sorts the arguments, so files of upper folders come first. pytest 9.1 ties the fixtures of a conftest
    to the first node of its folder. If a file of an upper folder follows, pytest collects that level again
    with new nodes, for which it finds no fixture."""
    config.args.sort(key=lambda arg: len(Path(arg.partition("::")[0]).resolve().parts))


def pytest_collection() -> None:
    """What is collected stays in memory: garbage collection only costs time meanwhile."""
    gc.disable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Spreads the campaign of the simulator: at the end, it would have the cores alone for minutes."""
    items[:] = spread(items, lambda item: item.nodeid.partition("::")[0], HEAVY)


def pytest_collection_finish() -> None:
    """Excludes the collected tests from garbage collection."""
    gc.enable()
    gc.collect()
    gc.freeze()


@pytest.fixture
def clock() -> VirtualClock:
    """A clock that the test moves."""
    from holdfast.clock import VirtualClock

    return VirtualClock()


@pytest.fixture(scope="session")
def pg_server() -> Iterator[Postgres]:
    """One PostgreSQL for all tests of a worker. A test that kills a server starts another one."""
    with Postgres() as server:
        yield server


@pytest.fixture(scope="session")
def _pg_migrated(pg_server: Postgres) -> str:
    """A migrated database. A copy of it takes a third of the time of a migration."""

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


@pytest.fixture(scope="session")
def pg_admin(pg_server: Postgres) -> Iterator[Admin]:
    """The connection that makes and drops the databases of all tests. A new one for each test would take a
    quarter of the time of both. It blocks: an event loop ends with its test."""
    with psycopg.connect(pg_server.dsn(), autocommit=True) as connection:
        yield connection


@pytest.fixture
def pg_dsn(pg_server: Postgres, pg_admin: Admin, _pg_migrated: str) -> Iterator[str]:
    """A database for one test, with the empty tables of Holdfast."""
    with database(pg_server, pg_admin, _pg_migrated) as dsn:
        yield dsn


@pytest.fixture
def pg_empty_dsn(pg_server: Postgres, pg_admin: Admin) -> Iterator[str]:
    """An empty database for one test, without tables."""
    with database(pg_server, pg_admin, "template1") as dsn:
        yield dsn


@contextmanager
def database(server: Postgres, admin: Admin, template: str) -> Iterator[str]:
    name = f"test_{next(_database_numbers)}"
    admin.execute(f"create database {name} template {template} strategy file_copy".encode())
    yield server.dsn(name)
    admin.execute(f"drop database {name} with (force)".encode())


@pytest.fixture(scope="session")
def redis_server() -> Iterator[Redis]:
    """One Redis for all tests of a worker. `redis_url` empties it for one test."""
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
    """Five empty, independent Redis servers. A test may kill or pause them."""
    for server in _redlock_servers:
        server.reset()
    return _redlock_servers
