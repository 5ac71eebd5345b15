"""`memory://` is one set of locks for all threads and event loops of a process."""

from __future__ import annotations

import asyncio
import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from holdfast.clock import VirtualClock
from holdfast.errors import WaitTimeout
from holdfast.primitives.locks import BlockingLocks, Locks
from tests.acceptance.apps.harness import eventually


async def test_two_connections_exclude_and_wake_each_other() -> None:
    url = "memory://two-that-connect"
    async with Locks.connect(url) as one, Locks.connect(url) as other:
        lease = await one.acquire("r", ttl=60)
        with pytest.raises(WaitTimeout):
            await other.acquire("r", wait=0)
        waiting = asyncio.create_task(other.acquire("r", wait=60))
        await eventually(lambda: bool(other._wakes))
        await lease.release()
        async with asyncio.timeout(1.5):  # Woken by a hint, before the waiter would poll again.
            assert (await waiting).fence == lease.fence + 1


def test_threads_with_separate_connections_exclude_each_other() -> None:
    together = threading.Barrier(4)
    inside, most = 0, 0

    def work(_: int) -> None:
        nonlocal inside, most
        with BlockingLocks.connect("memory://threads") as locks:
            together.wait(10)
            for _ in range(5):
                with locks.hold("r", ttl=60, wait=30):
                    inside += 1
                    most = max(most, inside)
                    inside -= 1

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(work, range(4)))
    assert most == 1


async def test_names_and_virtual_clocks_have_separate_locks() -> None:
    clock = VirtualClock()
    separate = [
        Locks.connect("memory://this"),
        Locks.connect("memory://that"),
        Locks.connect("memory://this", clock=clock),
        Locks.connect("memory://this", clock=VirtualClock()),
    ]
    leases = [await locks.acquire("r", wait=0) for locks in separate]
    assert len(leases) == 4
    same = Locks.connect("memory://this", clock=clock)
    with pytest.raises(WaitTimeout):
        await same.acquire("r", wait=0)
    for locks in (*separate, same):
        await locks.close()


def test_a_forked_child_has_separate_locks() -> None:
    with BlockingLocks.connect("memory://forked") as locks, locks.hold("r", ttl=60):
        child = os.fork()
        if child == 0:
            with BlockingLocks.connect("memory://forked") as mine, mine.hold("r", wait=0):
                os._exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
