"""Fixtures that every test may ask for: the real servers. One that is missing is an error."""

import itertools
from collections.abc import AsyncIterator, Iterator

import asyncpg
import pytest

from tests.servers import Postgres, Redis

REDLOCK_NODES = 5

_database_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def pg_server() -> Iterator[Postgres]:
    """One PostgreSQL for all tests of a worker. A test that kills a server makes its own."""
    with Postgres() as server:
        yield server


@pytest.fixture
async def pg_dsn(pg_server: Postgres) -> AsyncIterator[str]:
    """An empty database for one test."""
    database = f"test_{next(_database_numbers)}"
    admin = await asyncpg.connect(pg_server.dsn())
    try:
        await admin.execute(f"create database {database} strategy file_copy")
        yield pg_server.dsn(database)
        await admin.execute(f"drop database {database} with (force)")
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
