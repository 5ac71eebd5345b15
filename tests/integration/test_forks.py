"""A process that forks after it opened a queue: the child starts over, the parent goes on."""

from __future__ import annotations

import asyncio
import multiprocessing
import subprocess
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

import pytest

from holdfast import TaskQueue
from holdfast.primitives.idempotency.ledger import Ledger
from holdfast.primitives.locks.locks import Locks

FORK = multiprocessing.get_context("fork")


class Child:
    """A forked process that answers once, then waits for a message and answers again."""

    def __init__(self, work: Callable[[Connection], None]) -> None:
        self._pipe, theirs = FORK.Pipe()

        def run() -> None:
            try:
                work(theirs)
            except BaseException as error:
                theirs.send(repr(error))

        self._process = FORK.Process(target=run, daemon=True)
        self._process.start()

    def answer(self) -> Any:
        assert self._pipe.poll(30), "the child hangs"
        return self._pipe.recv()

    def go_on(self) -> None:
        self._pipe.send("go on")

    def join(self) -> None:
        self._process.join(30)
        assert self._process.exitcode == 0


def made(url: str) -> TaskQueue:
    queue = TaskQueue(url)
    queue.register_handler("work", lambda payload: payload)
    return queue


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_opens_its_own_store_and_outlives_that_of_its_parent(shared_url: str) -> None:
    """SQLite keeps its locks per process: if the child had taken over anything, the parent's close would
    remove the log that the child still writes to."""
    queue = made(shared_url)

    def work(pipe: Connection) -> None:
        async def enqueue() -> list[str]:
            assert not queue.is_running()
            return [str(await queue.enqueue("work", {"by": "child"})) for _ in range(20)]

        pipe.send(asyncio.run(enqueue()))
        pipe.recv()
        pipe.send(asyncio.run(enqueue()))

    async def parent() -> tuple[Child, list[str]]:
        async with queue:
            await queue.enqueue("work", {"by": "parent"})
            child = Child(work)
            found = await asyncio.to_thread(child.answer)
            assert queue.is_running()
            own = await queue.enqueue("work", {"by": "parent"})
            await own.result(timeout=20)
        return child, found

    child, ids = asyncio.run(parent())
    assert isinstance(ids, list), ids
    child.go_on()
    more = child.answer()
    assert isinstance(more, list), more
    child.join()

    async def look() -> None:
        async with TaskQueue(shared_url) as fresh:
            for task_id in [*ids, *more]:
                assert await fresh.get_task(task_id) is not None

    asyncio.run(look())


IDLE_CHILD = """
import gc, os, sys
from holdfast import TaskQueue
queue = TaskQueue(sys.argv[1])
queue.register_handler("work", lambda task: None)
queue.sync.enqueue("work")
if os.fork() == 0:
    del queue
    gc.collect()
    sys.exit(0)
os.wait()
"""


def test_a_child_that_does_not_use_the_queue_ends_without_a_word(shared_url: str) -> None:
    """As a process of `gunicorn --preload` that had no request."""
    command = [sys.executable, "-W", "ignore", "-c", IDLE_CHILD, shared_url]
    ended = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_many_forks_under_load_lose_nothing(shared_url: str) -> None:
    """Forks at any moment of the parent's writes: nothing hangs, no acknowledged task is lost, no id is
    used twice."""
    queue = made(shared_url)

    def work(pipe: Connection) -> None:
        async def enqueue() -> list[str]:
            return [str(await queue.enqueue("work")) for _ in range(5)]

        pipe.send(asyncio.run(enqueue()))

    async def parent() -> list[str]:
        ids: list[str] = []

        async def load() -> None:
            while True:
                handles = await asyncio.gather(*(queue.enqueue("work") for _ in range(10)))
                ids.extend(map(str, handles))

        await queue.open()
        loads = [asyncio.create_task(load()) for _ in range(3)]
        for _ in range(8):
            child = Child(work)
            found = await asyncio.to_thread(child.answer)
            assert isinstance(found, list), found
            ids.extend(found)
            await asyncio.to_thread(child.join)
        for task in loads:
            task.cancel()
        await asyncio.gather(*loads, return_exceptions=True)
        await queue.stop()
        return ids

    ids = asyncio.run(parent())
    assert len(ids) == len(set(ids))

    async def look() -> None:
        fresh = TaskQueue(shared_url)
        for task_id in ids:
            assert await fresh.get_task(task_id) is not None
        await fresh.stop()

    asyncio.run(look())


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_locks_and_ledgers_start_over_in_a_child(shared_url: str) -> None:
    locks, ledger = Locks.connect(shared_url), Ledger.connect(shared_url)

    async def use(name: str) -> tuple[int, Any]:
        async def effect(turn: Any) -> str:
            return name

        async with locks.hold(f"held by {name}", wait=20) as lease:
            return lease.fence, await ledger.run("fork", "one", name, {}, effect)

    async def parent() -> None:
        async with locks.hold("kept"):
            await use("parent")
            child = Child(lambda pipe: pipe.send(asyncio.run(use("child"))))
            assert await asyncio.to_thread(child.answer) == (1, "child")
            await asyncio.to_thread(child.join)
            owners = {
                (await ledger.get("fork", "one", name)).owner.partition("#")[0]  # type: ignore[union-attr]
                for name in ("parent", "child")
            }
            assert len(owners) == 2, "two processes must not act under one name"
            await use("parent again")
        await locks.close()
        await ledger.close()

    asyncio.run(parent())
