"""Closing a portal, a ledger or locks that threads wait in: waits end with NotRunning, in bounded time."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.steps import Interrupted
from holdfast.errors import LeaseLost, NotRunning
from holdfast.portal import Portal
from holdfast.primitives.idempotency import Answered, BlockingLedger, EntryLease
from holdfast.primitives.locks import BlockingLocks

PLACE = ("account:7", "charge", "key-1")


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as threads:
        yield threads


def test_closing_a_portal_ends_every_call(threads: ThreadPoolExecutor) -> None:
    portal = Portal("test")
    started = threading.Barrier(4)

    async def forever() -> None:
        await asyncio.to_thread(started.wait, 10)
        await asyncio.Event().wait()

    waiting = [threads.submit(portal.call, forever) for _ in range(3)]
    started.wait(10)
    portal.close()
    for call in waiting:
        with pytest.raises(NotRunning):
            call.result(10)
    with pytest.raises(NotRunning):
        portal.call(forever)


def test_the_thread_of_a_portal_may_collect_an_open_iterator() -> None:
    """The garbage collector runs in any thread. That of the loop must not wait for itself."""
    portal, ended, dropped = Portal("test"), threading.Event(), threading.Event()

    async def items() -> AsyncIterator[int]:
        try:
            yield 1
        finally:
            ended.set()

    left_open = [portal.iterate(items)]
    assert next(left_open[0]) == 1

    async def drop() -> None:
        left_open.clear()
        dropped.set()

    threading.Thread(target=portal.call, args=(drop,), daemon=True).start()
    assert dropped.wait(10)
    assert ended.wait(10)
    portal.close()


def test_a_signal_handler_may_call_a_portal_in_the_thread_that_calls_it() -> None:
    """Whatever that thread is doing: here, it holds the lock of the portal."""
    portal, called = Portal("test"), threading.Event()

    async def answer() -> int:
        return 1

    def interrupted() -> None:
        with portal._lock:
            assert portal.call(answer) == 1
        called.set()

    threading.Thread(target=interrupted, daemon=True).start()
    assert called.wait(10)
    portal.close()


def test_closing_a_portal_closes_iterators_that_callers_left_open() -> None:
    portal, ended = Portal("test"), threading.Event()

    async def items() -> AsyncIterator[int]:
        try:
            while True:
                yield 1
        finally:
            ended.set()

    left_open = portal.iterate(items)
    assert next(left_open) == 1
    portal.close()
    assert ended.is_set()


def test_an_interrupted_finish_returns_the_answer_with_the_interrupt() -> None:
    portal = Portal("test")
    waiting, struck = threading.Event(), threading.Event()
    result = portal._result

    def interrupted_result(future: Future[Any]) -> Any:
        waiting.set()
        return result(future)

    def interrupt(*_: object) -> None:
        struck.set()
        raise KeyboardInterrupt

    async def write() -> str:
        await asyncio.to_thread(waiting.wait, 10)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)
        await asyncio.to_thread(struck.wait, 10)
        return "written"

    portal._result = interrupted_result  # type: ignore[method-assign]
    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        answer = portal.finish(write)
    finally:
        signal.signal(signal.SIGUSR1, before)
        portal.close()
    assert isinstance(answer, Interrupted)
    assert answer.answer == "written"
    assert isinstance(answer.error, KeyboardInterrupt)


def test_closing_a_ledger_records_running_effects_and_ends_waits(
    threads: ThreadPoolExecutor, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path}/ledger.db"
    ledger = BlockingLedger.connect(url, lease_seconds=60.0)
    runs, may_end = threading.Event(), threading.Event()

    def effect(lease: EntryLease) -> str:
        runs.set()
        assert may_end.wait(10)
        return "paid"

    running = threads.submit(lambda: ledger.run(*PLACE, 1, effect))
    assert runs.wait(10)
    waiting = threads.submit(lambda: ledger.run(*PLACE, 1, effect, wait=3_600.0))
    closing = threads.submit(ledger.close)
    with pytest.raises(NotRunning):
        waiting.result(10)
    assert not closing.done()
    may_end.set()
    assert running.result(10) == "paid"
    closing.result(10)
    with BlockingLedger.connect(url) as other:
        assert isinstance(other.begin(*PLACE, 1), Answered)


def test_closing_a_ledger_waits_a_bounded_time(threads: ThreadPoolExecutor) -> None:
    ledger = BlockingLedger.connect("memory://")
    runs, may_end = threading.Event(), threading.Event()

    def effect(lease: EntryLease) -> str:
        runs.set()
        may_end.wait(10)
        return "paid"

    running = threads.submit(lambda: ledger.run(*PLACE, 1, effect))
    assert runs.wait(10)
    ledger.close(wait=0.0)
    may_end.set()
    with pytest.raises(NotRunning):
        running.result(10)
    ledger.close()


@pytest.mark.parametrize("kind", ["memory", "file"])
def test_closing_locks_ends_waiting_threads(
    threads: ThreadPoolExecutor, tmp_path: Path, kind: str
) -> None:
    locks = BlockingLocks.connect("memory://" if kind == "memory" else f"sqlite:///{tmp_path}/l.db")
    holds, may_end, asks = threading.Event(), threading.Event(), threading.Event()

    def holder() -> None:
        with locks.hold("r", ttl=60) as lease:
            holds.set()
            assert may_end.wait(10)
            lease.check()

    def waiter() -> None:
        asks.set()
        with locks.hold("r", ttl=60, wait=3_600):
            raise AssertionError("closed locks granted a claim")

    holding = threads.submit(holder)
    assert holds.wait(10)
    waiting = threads.submit(waiter)
    assert asks.wait(10)
    locks.close()
    with pytest.raises(NotRunning):
        waiting.result(10)
    may_end.set()
    with pytest.raises(LeaseLost, match="shutdown"):
        holding.result(10)
    locks.close()
