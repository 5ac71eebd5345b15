"""Remote workers while processes and connections die: nothing is lost, one effective runner per fence."""

from __future__ import annotations

import asyncio
import signal
import time
from collections import Counter
from pathlib import Path

import pytest

from holdfast.core.task import RunId, Status
from holdfast.engine import drain
from holdfast.queue.queue import Queue
from holdfast.remote import outcomes
from holdfast.remote.engine import RemoteEngine
from tests.integration.remote import app
from tests.integration.remote.support import (
    ADMIN,
    SECONDS,
    Network,
    Server,
    engine_of,
    marked,
    queue_with_handlers,
    said,
    server,
    worker,
)


async def reconnected(engine: RemoteEngine, more_than: int) -> None:
    """Waits for a connection after this many."""
    while engine.link.connections <= more_than or not engine.link.is_connected:
        await asyncio.wait_for(engine.link.changed.wait(), SECONDS)
        engine.link.changed.clear()


async def one_runner_per_fence(queue: Queue, ids: list[str]) -> None:
    """Every task has completed once, and each fence had one start and at most one end."""
    starts: Counter[tuple[str, int]] = Counter()
    ends: Counter[str] = Counter()
    async for event in queue.events(follow=False):
        if event.task_id in ids:
            starts[event.task_id, event.version] += event.kind == "task.started"
            ends[event.task_id] += event.kind == "task.completed"
    assert ends == dict.fromkeys(ids, 1)
    assert max(starts.values()) == 1


async def test_a_killed_worker_loses_nothing(gateway: Server, tmp_path: Path) -> None:
    token = await gateway.joining(uses=5)
    producer = queue_with_handlers(gateway.address)
    handles = await producer.enqueue_many(
        [{"type": "in_process", "payload": {"n": n}} for n in range(40)]
    )
    async with worker(tmp_path, gateway.address, token, "--lease", "5") as first:
        await handles[0].wait(SECONDS)
        first.send_signal(signal.SIGKILL)
        await first.wait()
    async with worker(tmp_path, gateway.address, token, "--lease", "5"):
        results = await asyncio.gather(*(handle.result(SECONDS) for handle in handles))
    assert [result[0] for result in results] == [n * 3 for n in range(40)]
    await one_runner_per_fence(producer, [handle.id for handle in handles])
    await producer.stop()


async def test_a_killed_gateway_costs_no_run(tmp_path: Path, url: str) -> None:
    async with server(tmp_path, url) as first:
        port = first.port
        first.transport = "grpc" if url.startswith("postgres") else "holdfast"
        queue = queue_with_handlers(first.address, lease_seconds=30.0)
        await queue.start()
        handle = await queue.enqueue("until_marked", {"name": "gateway"})
        await marked("gateway started 1")
        connections = engine_of(queue).link.connections
        await first.kill()
    app.marks["gateway may end"].set()  # its outcome waits for a gateway
    async with server(tmp_path, url, port=port):
        await reconnected(engine_of(queue), connections)
        assert await handle.result(SECONDS) == 1
        assert (await handle.get()).attempts == 1
        await one_runner_per_fence(queue, [handle.id])
        await queue.stop()


async def test_a_worker_moves_to_another_gateway(
    tmp_path: Path, pg_dsn: str, transport: str
) -> None:
    async with server(tmp_path, pg_dsn) as first, server(tmp_path, pg_dsn) as second:
        address = f"{transport}://127.0.0.1:{first.port},127.0.0.1:{second.port}"
        async with queue_with_handlers(address, lease_seconds=30.0) as queue:
            handle = await queue.enqueue("until_marked", {"name": "move"})
            await marked("move started 1")
            before = engine_of(queue).link.gateway
            connections = engine_of(queue).link.connections
            await first.kill()
            await reconnected(engine_of(queue), connections)
            assert engine_of(queue).link.gateway != before
            app.marks["move may end"].set()
            assert await handle.result(SECONDS) == 1
            assert await (await queue.enqueue("add", {"a": 1, "b": 1})).result(SECONDS) == 2


async def test_connections_that_are_cut_lose_and_repeat_nothing(gateway: Server) -> None:
    async with Network(gateway) as network:
        producer = queue_with_handlers(gateway.address)
        async with queue_with_handlers(network.address, lease_seconds=30.0) as queue:
            engine = engine_of(queue)
            handles = await producer.enqueue_many(
                [{"type": "add", "payload": {"a": n, "b": 0}} for n in range(200)]
            )
            for n in range(5):
                await handles[n * 40].wait(SECONDS)
                connections = engine.link.connections
                network.cut()
                network.heal()
                await reconnected(engine, connections)
            results = await asyncio.gather(*(handle.result(SECONDS) for handle in handles))
            assert results == list(range(200))
            assert engine.completer.fenced == 0
        await one_runner_per_fence(producer, [handle.id for handle in handles])
        await producer.stop()


async def test_a_run_that_is_cut_off_is_cancelled_before_its_lease_ends(
    sqlite_gateway: Server,
) -> None:
    async with Network(sqlite_gateway) as network:
        producer = queue_with_handlers(sqlite_gateway.address)
        async with queue_with_handlers(network.address, lease_seconds=3.0) as queue:
            handle = await producer.enqueue("forever", {"name": "cut"})
            await marked("cut started")
            network.cut()
            leases = engine_of(queue).leases
            deadline = leases.deadline(RunId(handle.id, 1))
            lease_until = (await handle.get()).lease_until
            assert deadline is not None
            assert lease_until is not None
            # Both clocks are of this machine. How late a busy machine cancels is not measured.
            assert deadline + time.time() - time.monotonic() < lease_until
            await marked("cut cancelled")
            assert leases.ended == 1
            network.heal()
            engine_of(queue).hurry()
        await producer.stop()


async def test_an_outage_of_the_gateway_longer_than_a_lease_is_no_death(tmp_path: Path) -> None:
    """The worker cancels its run before the lease ends, and gives the task back when a gateway answers."""
    url = f"sqlite:///{tmp_path}/holdfast.db"
    async with server(tmp_path, url) as first:
        queue = queue_with_handlers(first.address, lease_seconds=5.0)
        await queue.start()
        handle = await queue.enqueue("forever", {"name": "outage"})
        await marked("outage started")
        app.marks["outage started"].clear()
        await first.kill()
    await marked("outage cancelled")
    async with server(tmp_path, url, port=first.port):
        await marked("outage started")
        task = await handle.get()
        assert (task.status, task.deaths, task.attempts) == (Status.RUNNING, 0, 1)
        kinds = [
            event.kind async for event in queue.events(follow=False) if event.task_id == handle.id
        ]
        assert "task.released" in kinds
        assert "task.lost" not in kinds
        engine_of(queue).hurry()
        await queue.stop()


@pytest.mark.parametrize("kind", ["frozen", "cut"])
async def test_a_half_open_connection_is_replaced(sqlite_gateway: Server, kind: str) -> None:
    async with Network(sqlite_gateway) as network:
        producer = queue_with_handlers(sqlite_gateway.address)
        async with queue_with_handlers(network.address, token=ADMIN, lease_seconds=5.0) as queue:
            connections = engine_of(queue).link.connections
            if kind == "frozen":
                network.freeze()
            else:
                network.cut()
                network.heal()
            handle = await producer.enqueue("add", {"a": 1, "b": 2})
            assert await handle.result(SECONDS) == 3
            assert engine_of(queue).link.connections > connections
        await producer.stop()


async def test_a_stop_ends_while_no_gateway_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Running tasks cannot be given back, and an outcome cannot be written: their leases expire."""
    monkeypatch.setattr(outcomes, "GIVE_BACK_SECONDS", 0.1)
    monkeypatch.setattr(drain, "FLUSH_SECONDS", 0.1)
    async with server(tmp_path, f"sqlite:///{tmp_path}/holdfast.db") as gateway:
        queue = queue_with_handlers(gateway.address, lease_seconds=30.0, shutdown_timeout=0.1)
        await queue.start()
        await queue.enqueue("forever", {"name": "alone"})
        await queue.enqueue("until_marked", {"name": "ends alone"})
        await marked("alone started")
        await marked("ends alone started 1")
        await gateway.kill()
        app.marks["ends alone may end"].set()
        await asyncio.wait_for(queue.stop(), SECONDS)


async def test_a_worker_that_starts_waits_for_its_gateway(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/holdfast.db"
    async with server(tmp_path, url) as first:
        port, address = first.port, first.address
    async with (
        worker(tmp_path, address, ADMIN, ready="waiting for the gateway") as process,
        server(tmp_path, url, port=port),
    ):
        await said(process, "ready: pid")
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0


async def test_a_worker_that_waits_for_its_gateway_stops(tmp_path: Path) -> None:
    async with worker(
        tmp_path, "holdfast://127.0.0.1:1", ADMIN, ready="waiting for the gateway"
    ) as process:
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0
