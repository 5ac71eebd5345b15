"""Fixtures for all tests: real servers. A missing server is an error, not a skip.

Settings for all tests: temporary folders and the data of the servers are on tmpfs, because no test simulates
a power loss. The many short processes cache their bytecode, regardless of the environment. SIGINT is handled,
which the children of a background job in a shell would ignore.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import psycopg
import pytest

from proof.lab.folders import scratch
from proof.lab.servers import Postgres, Redis
from tests.databases import Admin, Databases, make_template
from tests.spread import spread

if TYPE_CHECKING:
    from holdfast.clock import VirtualClock

# No test asserts how fast it is: a busy machine must not make one fail.
hypothesis.settings.register_profile("holdfast", deadline=None)
hypothesis.settings.load_profile("holdfast")

HEAVY = ("tests/sim/",)
"""Folders of tests that keep a core busy."""
WORLD = "tests/acceptance/both_ways/"
"""A folder whose files share what took long to make."""
LONG = (
    *(WORLD, "tests/browser/", "tests/e2e/", "tests/integration/agent/"),
    *("tests/acceptance/test_demo.py", "tests/acceptance/test_howto_pages.py"),
    *("tests/acceptance/test_kill.py", "tests/acceptance/test_readme.py"),
    *("tests/acceptance/test_restart.py", "tests/acceptance/test_tutorial.py"),
    *("tests/conformance/kv/test_model.py", "tests/integration/gateway/test_openapi.py"),
    *("tests/integration/remote/test_remote_faults.py", "tests/integration/test_django.py"),
    *("tests/test_site.py", "tests/test_tidy.py"),
)
"""Files and folders with the tests that take longest."""
REDLOCK_NODES = 5
COLLECT_AFTER = (5_000, 20, 20)
"""Objects, and collections of each younger generation."""
MIGRATED = "migrated"

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
    """What takes long begins early, and each process of xdist has a part of it: at the end, one of them would
    have the cores alone for minutes."""
    items[:] = spread(
        items,
        unit_of,
        heavy=lambda file: file.startswith(HEAVY),
        long=lambda file: file.startswith(LONG),
        processes=int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")),
    )


def unit_of(item: pytest.Item) -> str:
    """The file of a test, or its folder if that stays together."""
    file = item.nodeid.partition("::")[0]
    return WORLD if file.startswith(WORLD) else file


def pytest_collection_finish() -> None:
    """Excludes the collected tests from garbage collection, and collects rarely: what tests make at once is
    small, and the default looks at everything that is left over from them after each 700 objects."""
    gc.freeze()
    gc.set_threshold(*COLLECT_AFTER)
    gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, object, object]:
    """Collects what the tests of a file have left, which shows resources that were not closed. What stays is
    looked at no more: the simulator collects at the end of each run."""
    ran = yield
    if nextitem is None or nextitem.path != item.path:
        gc.collect()
        gc.freeze()
    return ran


@pytest.fixture
def clock() -> VirtualClock:
    """A clock that the test moves."""
    from holdfast.clock import VirtualClock

    return VirtualClock()


@pytest.fixture(scope="session")
def pg_server() -> Iterator[Postgres]:
    """One PostgreSQL for all tests of a worker. A test that kills a server starts another one. The databases
    are small and short-lived: what the server does in the background would meet a test by chance."""
    with Postgres(autovacuum="off", shared_preload_libraries="plpgsql") as server:
        yield server


@pytest.fixture(scope="session")
def pg_admin(pg_server: Postgres) -> Iterator[Admin]:
    """The connection that makes and drops the databases of all tests. A new one for each test would take a
    quarter of the time of both. It blocks: an event loop ends with its test."""
    with psycopg.connect(pg_server.dsn(), autocommit=True) as connection:
        yield connection


@pytest.fixture(scope="session")
def pg_databases(pg_server: Postgres, pg_admin: Admin) -> Iterator[Databases]:
    """Databases like one that was migrated once: a copy of it takes a third of the time of a migration."""

    from holdfast.clock import SystemClock
    from holdfast.store.backends import store_for

    async def migrate() -> None:
        store = store_for(pg_server.dsn(MIGRATED), SystemClock())()
        await store.open()
        await store.close()

    pg_admin.execute(f"create database {MIGRATED}".encode())
    asyncio.run(migrate())
    make_template(pg_server.dsn(MIGRATED))
    databases = Databases(pg_server, pg_admin, MIGRATED)
    yield databases
    databases.close()


@pytest.fixture
def pg_dsn(pg_databases: Databases) -> Iterator[str]:
    """A database for one test, with the empty tables of Holdfast."""
    with pg_databases.migrated() as dsn:
        yield dsn


@pytest.fixture
def pg_empty_dsn(pg_databases: Databases) -> Iterator[str]:
    """An empty database for one test, without tables."""
    with pg_databases.empty() as dsn:
        yield dsn


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
