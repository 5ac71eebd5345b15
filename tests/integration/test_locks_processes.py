"""Locks between real processes, connections and clocks: paused holders, guards, hints, threads, Redis."""

from __future__ import annotations

import asyncio
import signal
import threading
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import apsw
import asyncpg
import pytest

from holdfast.errors import InvalidInput, LeaseLost, StoreUnavailable, WaitTimeout
from holdfast.metrics import Metrics, NullMeter
from holdfast.primitives.locks import (
    FAMILIES,
    BlockingEfficiencyLocks,
    BlockingLocks,
    EfficiencyLocks,
    Lease,
    Locks,
    LossReason,
    meters,
)
from holdfast.store.backends import sqlite_path
from proof.lab.processes import start_module
from proof.lab.servers import Postgres, Redis
from tests.integration.lock_app import TABLE, guarded_write, run_sql
from tests.looks import look_again

LONG = 600.0


class Child:
    """A process of `lock_app`."""

    def __init__(self, process: Process) -> None:
        self.process = process

    async def says(self) -> list[str]:
        assert self.process.stdout is not None
        return (await self.process.stdout.readline()).decode().split()

    def tell(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(b"write\n")


@asynccontextmanager
async def child(url: str, resource: str, ttl: float) -> AsyncIterator[Child]:
    process = await start_module("tests.integration.lock_app", url, resource, ttl)
    try:
        yield Child(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


# -- zombies -------------------------------------------------------------------------------------------


async def test_a_paused_holder_that_resumes_is_refused_by_its_fence(shared_url: str) -> None:
    """The holder is stopped beyond its ttl and another claim is granted. The holder then resumes,
    unaware of that, and writes."""
    async with Locks.connect(shared_url) as locks, child(shared_url, "r", 1.0) as zombie:
        assert await zombie.says() == ["held", "1"]
        await run_sql(shared_url, TABLE)
        zombie.tell()
        assert await zombie.says() == ["written"]
        zombie.process.send_signal(signal.SIGSTOP)
        async with locks.hold("r", ttl=30, wait=60) as lease:
            assert lease.fence == 2
            await guarded_write(shared_url, lease, "follower")
            zombie.tell()
            zombie.process.send_signal(signal.SIGCONT)
            assert await zombie.says() == ["refused"]
            said, reason = await zombie.says()
            assert (said, reason in ("expired", "fenced")) == ("lost", True)
        assert await run_sql(shared_url, "SELECT who, fence FROM protected ORDER BY fence") == [
            ("child", 1),
            ("follower", 2),
        ]


async def test_the_next_claim_is_granted_after_the_ttl_of_a_killed_holder(shared_url: str) -> None:
    async with Locks.connect(shared_url) as locks, child(shared_url, "r", 0.5) as holder:
        assert await holder.says() == ["held", "1"]
        holder.process.kill()
        async with locks.hold("r", ttl=30, wait=60) as lease:
            assert lease.fence == 2


# -- guards --------------------------------------------------------------------------------------------


async def test_a_guarded_write_passes_until_another_claim_is_granted(shared_url: str) -> None:
    metrics = Metrics(FAMILIES)
    async with Locks.connect(shared_url, meter=metrics) as locks:
        first = await locks.acquire("r", ttl=LONG)
        await run_sql(shared_url, TABLE)
        await guarded_write(shared_url, first, "first")
        await locks.revoke("r", by="ann")
        second = await locks.acquire("r", ttl=LONG, wait=0)
        with pytest.raises(LeaseLost):
            await guarded_write(shared_url, first, "zombie")
        await guarded_write(shared_url, second, "second")
        await second.release()
        with pytest.raises(LeaseLost):
            await guarded_write(shared_url, second, "late")
    rows = await run_sql(shared_url, "SELECT who FROM protected ORDER BY fence")
    assert rows == [("first",), ("second",)]
    assert metrics.value("holdfast_lock_fencing_rejections_total") == 2


async def test_no_claim_is_granted_between_guard_and_commit_on_postgres(
    pg_dsn: str,
) -> None:
    async with Locks.connect(pg_dsn) as locks:
        lease = await locks.acquire("r", ttl=LONG)
        connection = await asyncpg.connect(pg_dsn)
        async with connection.transaction():
            await lease.guard(connection)
            revoking = asyncio.create_task(locks.revoke("r", by="ann"))
            blocked = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
            while not (await run_sql(pg_dsn, blocked))[0][0]:
                assert not revoking.done()
        await revoking
        await connection.close()


async def test_no_claim_is_granted_between_guard_and_commit_on_sqlite(
    tmp_path: Path,
) -> None:
    """A deferred transaction can no longer write after another claim was granted."""
    url = f"sqlite:///{tmp_path / 'locks.db'}"
    async with Locks.connect(url) as locks:
        lease = await locks.acquire("r", ttl=LONG)
        await run_sql(url, TABLE)
        file = apsw.Connection(sqlite_path(url))
        file.execute("BEGIN")
        await lease.guard(file)
        await locks.revoke("r", by="ann")
        with pytest.raises(apsw.BusyError):
            file.execute("INSERT INTO protected VALUES ('zombie', 1)")
        file.close()


async def test_a_guard_needs_an_open_transaction_on_the_same_kind_of_database(
    shared_url: str,
) -> None:
    async with Locks.connect(shared_url) as locks:
        lease = await locks.acquire("r", ttl=LONG)
        with pytest.raises(InvalidInput):
            await lease.guard(object())
    async with Locks.connect("memory://") as locks:
        lease = await locks.acquire("r", ttl=LONG)
        with pytest.raises(InvalidInput):
            await lease.guard(object())


# -- hints: each wait here would outlast the test if it had to be ended by polling ----------------------


async def test_a_release_in_another_process_wakes_the_first_waiter(shared_url: str) -> None:
    async with (
        Locks.connect(shared_url) as here,
        Locks.connect(shared_url, waiter_seconds=3 * LONG) as there,
    ):
        first = await here.acquire("r", ttl=LONG)
        waiting = asyncio.create_task(there.acquire("r", ttl=LONG, wait=2 * LONG))
        while not (await here.show("r")).waiters:
            await look_again()
        await first.release()
        assert (await waiting).fence == 2


async def test_a_revocation_by_another_process_is_noticed_at_once(shared_url: str) -> None:
    async with Locks.connect(shared_url) as here, Locks.connect(shared_url) as there:
        lease = await here.acquire("r", ttl=LONG)
        await there.revoke("r", by="ann", reason="stuck")
        await lease.lost.wait()
        assert lease.lost.reason is LossReason.REVOKED


async def test_a_dead_server_ends_the_lease_before_its_ttl() -> None:
    with Postgres() as server:
        locks = Locks.connect(server.dsn())
        lease = await locks.acquire("r", ttl=1.0)
        server.kill()
        await lease.lost.wait()
        assert lease.lost.reason is LossReason.STORE_UNREACHABLE
        with pytest.raises(StoreUnavailable):
            await locks.acquire("another", wait=0)
        await lease.release()
        await locks.close()


# -- threads -------------------------------------------------------------------------------------------


def test_threads_share_blocking_locks(tmp_path: Path) -> None:
    fences: list[int] = []
    with BlockingLocks.connect(f"sqlite:///{tmp_path / 'locks.db'}") as locks:

        def work() -> None:
            for _ in range(5):
                with locks.hold("r", ttl=30, wait=60) as lease:
                    lease.check()
                    lease.verify()
                    before = list(fences)
                    fences[:] = [*before, lease.fence]

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert fences == list(range(1, 21))
        assert not locks.list()
        with locks.hold("r"), pytest.raises(WaitTimeout), locks.hold("r", wait=0):
            pytest.fail("it is held")


def test_a_blocking_holder_notices_a_revocation(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'locks.db'}"

    def body(locks: BlockingLocks) -> None:
        with locks.hold("r", ttl=LONG) as lease:
            file = apsw.Connection(sqlite_path(url))
            with file:
                lease.guard(file)
            file.close()
            locks.revoke("r", by="ann")
            lease.wait_lost()
            assert lease.lost_reason is LossReason.REVOKED
            with pytest.raises(LeaseLost):
                lease.check()

    with BlockingLocks.connect(url) as locks:
        with pytest.raises(LeaseLost):
            body(locks)
        assert locks.show("r").audit[0].actor == "ann"


# -- Redis, for efficiency -----------------------------------------------------------------------------


async def test_an_efficiency_lease_has_no_fence(redis_url: str) -> None:
    async with EfficiencyLocks.connect(redis_url, timeout_seconds=5) as locks:
        async with locks.hold("r", ttl=30, wait=0) as lease:
            lease.check()
            assert not hasattr(lease, "fence")
            assert not isinstance(lease, Lease)
            with pytest.raises(WaitTimeout):
                await locks.acquire("r", wait=0)
        async with locks.hold("r", ttl=30, wait=0):
            pass
        with pytest.raises(InvalidInput):
            await locks.acquire("r", grace=5, wait=0)


class Renewals(NullMeter):
    """A meter that signals renewals."""

    def __init__(self) -> None:
        self.renewed = asyncio.Event()

    def observe(self, name: str, seconds: float, /, **labels: str) -> None:
        if name == meters.RENEW:
            self.renewed.set()


async def test_an_efficiency_lease_is_renewed_and_lost_when_redis_forgets(
    redis_url: str, redis_server: Redis
) -> None:
    renewals = Renewals()
    async with EfficiencyLocks.connect(redis_url, timeout_seconds=5, meter=renewals) as locks:
        lease = await locks.acquire("r", ttl=1.5)
        redis_server.command("PERSIST lock:r")
        await renewals.renewed.wait()
        assert 0 < int(redis_server.command("PTTL lock:r").strip(":\r\n")) <= 1500
        lease.check()
        redis_server.command("FLUSHALL")
        await lease.lost.wait()
        assert lease.lost.reason is LossReason.EXPIRED


async def test_waiters_of_an_efficiency_lock_are_all_granted(redis_url: str) -> None:
    held: list[str] = []

    async def work(name: str) -> None:
        async with locks.hold("r", ttl=30, wait=60):
            held.append(name)
            assert held[-1:] == [name]

    async with EfficiencyLocks.connect(redis_url, timeout_seconds=5) as locks:
        await asyncio.gather(*(work(str(number)) for number in range(4)))
    assert sorted(held) == ["0", "1", "2", "3"]


async def test_a_cancelled_waiter_of_an_efficiency_lock_does_not_hold(
    redis_url: str, redis_server: Redis
) -> None:
    async with EfficiencyLocks.connect(redis_url, timeout_seconds=5) as locks:
        for iterations in range(30):
            asking = asyncio.create_task(locks.acquire("r", wait=60))
            for _ in range(iterations):
                await asyncio.sleep(0)
            if asking.done():
                await (await asking).release()
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
            assert redis_server.command("EXISTS lock:r") == ":0\r\n"


def test_blocking_efficiency_locks_work_on_a_quorum(redlock_nodes: list[Redis]) -> None:
    redlock_nodes[0].kill()
    urls = [node.url for node in redlock_nodes]
    with BlockingEfficiencyLocks.connect(urls) as locks, locks.hold("r", wait=60) as lease:
        lease.check()
