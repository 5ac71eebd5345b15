"""The short form of `make chaos`: faults of network and server other than crashes.

Crashes, kills and frozen workers are in `tests/acceptance/test_kill.py` and `test_restart.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import pytest

from holdfast import TaskQueue
from holdfast.errors import DiskFull, StoreUnavailable
from holdfast.store.postgres import connection as postgres, watch
from holdfast.store.postgres.pool import ConnectionPool
from proof.lab.proxy import Proxy
from tests.acceptance.apps.gate import Gate
from tests.acceptance.apps.harness import eventually, whole_feed
from tests.acceptance.apps.jobs import make_queue

SETTINGS: dict[str, Any] = {"base_retry_delay": 0.01, "shutdown_timeout": 2.0}
SILENT_SECONDS = 0.3
TASKS = 20


@pytest.fixture
async def proxy(pg_dsn: str) -> AsyncIterator[Proxy]:
    port = urlsplit(pg_dsn).port
    assert port is not None
    async with Proxy(port) as made:
        yield made


def through(proxy: Proxy, dsn: str) -> str:
    port = urlsplit(dsn).port
    return dsn.replace(f":{port}/", f":{proxy.port}/")


async def test_connections_that_go_silent_are_found_long_before_any_time_limit(
    pg_dsn: str, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half open: nothing arrives and nothing ends. Running tasks finish over new connections, once."""
    monkeypatch.setattr(watch, "SILENT_SECONDS", SILENT_SECONDS)
    producer = TaskQueue(pg_dsn)
    async with Gate() as gate, make_queue(through(proxy, pg_dsn), "work", **SETTINGS) as queue:
        held = [
            await producer.enqueue("work", {"gate": gate.address, "value": n}) for n in range(5)
        ]
        await gate.arrived(5)
        proxy.freeze()
        gate.open()
        late = [await producer.enqueue("work", {"value": n}) for n in range(5, TASKS)]
        async with asyncio.timeout(postgres.COMMAND_SECONDS / 2):
            found = [await task.result(10) for task in (*held, *late)]
        assert found == list(range(TASKS))
        tasks = [await task.get() for task in (*held, *late)]
        assert {(task.attempts, task.deaths) for task in tasks} == {(1, 0)}
        assert (await queue.get_stats()).restarts == 0
        events = await whole_feed(producer)
        assert sum(event.kind == "task.completed" for event in events) == TASKS
    await producer.stop()


async def test_a_statement_that_the_server_works_on_is_left_alone(
    pg_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slow is not silent: the server reports its state."""
    monkeypatch.setattr(watch, "SILENT_SECONDS", 0.1)
    times = 0
    connect = postgres.connect

    async def counted(dsn: str) -> postgres.Connection:
        nonlocal times
        times += 1
        return await connect(dsn)

    monkeypatch.setattr(postgres, "connect", counted)
    other = await asyncpg.connect(pg_dsn)
    await other.execute("SELECT pg_advisory_lock(1)")
    pool = ConnectionPool(pg_dsn, 1)
    async with pool.connection() as mine:
        waiting = asyncio.create_task(mine.fetchval("SELECT pg_advisory_xact_lock(1)"))
        await eventually(lambda: times > 3)  # the server was asked repeatedly
        assert not waiting.done()
        await other.close()
        await waiting
    await pool.close()


async def test_a_cut_network_costs_a_running_task_nothing(pg_dsn: str, proxy: Proxy) -> None:
    producer = TaskQueue(pg_dsn)
    async with Gate() as gate, make_queue(through(proxy, pg_dsn), "work", **SETTINGS) as queue:
        held = [
            await producer.enqueue("work", {"gate": gate.address, "value": n}) for n in range(5)
        ]
        await gate.arrived(5)
        proxy.cut()
        gate.open()
        assert queue.parts.sessions.engine is not None
        completer = queue.parts.sessions.engine.completer
        await eventually(lambda: completer.outages > 1)
        proxy.heal()
        assert [await task.result(10) for task in held] == list(range(5))
        tasks = [await task.get() for task in held]
        assert {(task.attempts, task.deaths) for task in tasks} == {(1, 0)}
        assert (await queue.get_stats()).restarts == 0
    await producer.stop()


FULL = """
CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE 'could not extend file' USING ERRCODE = '53100'; END $$;
CREATE TRIGGER full_disk BEFORE INSERT OR UPDATE ON holdfast_task
FOR EACH STATEMENT EXECUTE FUNCTION full_disk();
"""
ROOM = "DROP TRIGGER full_disk ON holdfast_task"
READ_ONLY = "ALTER DATABASE {name} SET default_transaction_read_only = on"
WRITABLE = "ALTER DATABASE {name} RESET default_transaction_read_only"


@pytest.mark.parametrize(
    ("break_it", "mend_it", "error"),
    [(FULL, ROOM, DiskFull), (READ_ONLY, WRITABLE, StoreUnavailable)],
    ids=["full-disk", "read-only"],
)
async def test_a_server_that_refuses_to_write_is_waited_for(
    pg_dsn: str, break_it: str, mend_it: str, error: type[StoreUnavailable]
) -> None:
    """A full disk; a server that became a standby. Typed for callers, an outage for the engine."""
    async with Gate() as gate, make_queue(pg_dsn, "work", **SETTINGS) as queue:
        held = await queue.enqueue("work", {"gate": gate.address, "value": "held"})
        await gate.arrived(1)
        name = urlsplit(pg_dsn).path[1:]
        operator = await asyncpg.connect(pg_dsn)
        await operator.execute(break_it.format(name=name))
        await operator.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE pid <> pg_backend_pid() AND datname = $1",
            name,
        )
        with pytest.raises(error):
            await queue.enqueue("work", {"value": "refused"})
        gate.open()
        assert queue.parts.sessions.engine is not None
        completer = queue.parts.sessions.engine.completer
        await eventually(lambda: completer.outages > 2)
        await operator.execute("SET default_transaction_read_only = off")
        await operator.execute(mend_it.format(name=name))
        await operator.close()
        assert await held.result(15) == "held"
        after = await queue.enqueue("work", {"value": "after"})
        assert await after.result(15) == "after"
        assert (await queue.get_stats()).restarts == 0
