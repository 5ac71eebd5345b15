"""Closing what threads wait in: each wait ends with a typed error, and closing hangs on none."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.steps import Interrupted
from holdfast.errors import LeaseLost, NotRunning
from holdfast.primitives.idempotency import Answered, BlockingLedger, EntryLease
from holdfast.primitives.locks import BlockingLocks
from holdfast.primitives.portal import Portal

PLACE = ("account:7", "charge", "key-1")


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as threads:
        yield threads


def test_a_portal_that_closes_ends_every_call(threads: ThreadPoolExecutor) -> None:
    portal = Portal("test")
    begun = threading.Barrier(4)

    async def forever() -> None:
        await asyncio.to_thread(begun.wait, 10)
        await asyncio.Event().wait()

    waiting = [threads.submit(portal.call, forever) for _ in range(3)]
    begun.wait(10)
    portal.close()
    for each in waiting:
        with pytest.raises(NotRunning):
            each.result(10)
    with pytest.raises(NotRunning):
        portal.call(forever)


def test_an_interrupted_caller_gets_the_answer_beside_the_interruption() -> None:
    portal = Portal("test")
    waiting, struck = threading.Event(), threading.Event()
    result = portal._result

    def told(future: Future[Any]) -> Any:
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

    portal._result = told  # type: ignore[method-assign]
    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        answer = portal.finish(write)
    finally:
        signal.signal(signal.SIGUSR1, before)
        portal.close()
    assert isinstance(answer, Interrupted)
    assert answer.answer == "written"
    assert isinstance(answer.error, KeyboardInterrupt)


def test_closing_a_ledger_records_what_runs_and_ends_who_waits(
    threads: ThreadPoolExecutor, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path}/ledger.db"
    ledger = BlockingLedger.connect(url, lease_seconds=60.0)
    runs, may_end = threading.Event(), threading.Event()

    def effect(turn: EntryLease) -> str:
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


def test_closing_a_ledger_does_not_wait_for_ever(threads: ThreadPoolExecutor) -> None:
    ledger = BlockingLedger.connect("memory://")
    runs, may_end = threading.Event(), threading.Event()

    def effect(turn: EntryLease) -> str:
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
def test_closing_locks_ends_threads_that_wait(
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
            raise AssertionError("granted by locks that are closed")

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
