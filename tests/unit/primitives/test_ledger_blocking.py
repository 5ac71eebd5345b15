"""The blocking ledger: the same steps, with the effect in the thread of the caller."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from holdfast.errors import IdempotencyConflict, InProgress, LeaseLost, NotRunning
from holdfast.portal import Portal
from holdfast.primitives.idempotency import Answered, BlockingLedger, EntryLease, State

KEY = ("account:7", "charge", "key-1")


@pytest.fixture(params=["memory", "file"])
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BlockingLedger]:
    url = "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/l.db"
    with BlockingLedger.connect(url, lease_seconds=30.0) as ledger:
        yield ledger


def test_the_effect_runs_once_in_the_callers_thread(ledger: BlockingLedger) -> None:
    threads: list[str] = []

    def effect(lease: EntryLease) -> None:
        threads.append(threading.current_thread().name)

    for _ in range(2):
        assert ledger.run(*KEY, 1, effect) is None
    assert threads == [threading.current_thread().name]
    with pytest.raises(IdempotencyConflict):
        ledger.run(*KEY, 2, effect)


def test_concurrent_threads_run_one_effect(ledger: BlockingLedger) -> None:
    acted: list[str] = []
    together = threading.Barrier(8)

    def effect(lease: EntryLease) -> str:
        acted.append(lease.owner)
        return "paid"

    def call(_: int) -> object:
        together.wait(10)
        return ledger.run(*KEY, 1, effect, wait=10.0)

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(call, range(8))) == ["paid"] * 8
    assert len(acted) == 1


def test_an_interrupted_call_frees_its_key_at_once(ledger: BlockingLedger) -> None:
    def interrupted(lease: EntryLease) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ledger.run(*KEY, 1, interrupted)
    assert ledger.run(*KEY, 1, lambda lease: lease.attempt) == 2


def test_every_ledger_method_has_a_blocking_form(ledger: BlockingLedger) -> None:
    lease = ledger.begin(*KEY, 1)
    assert isinstance(lease, EntryLease)
    with pytest.raises(InProgress):
        ledger.begin(*KEY, 1)
    ledger.extend(lease, 60.0)
    assert ledger.unfinished() == []
    ledger.abandon(lease)
    lease = ledger.begin(*KEY, 1)
    assert isinstance(lease, EntryLease)
    ledger.finish(lease, "paid")
    with pytest.raises(LeaseLost):
        ledger.fail(lease, ValueError())
    assert isinstance(ledger.begin(*KEY, 1), Answered)
    entry = ledger.get(*KEY)
    assert entry is not None
    assert entry.state is State.DONE
    assert ledger.prune() == 0


def test_a_closed_ledger_raises_not_running() -> None:
    ledger = BlockingLedger.connect("memory://")
    ledger.prune()
    ledger.close()
    with pytest.raises(NotRunning):
        ledger.prune()


def test_a_portal_returns_values_and_raises_errors() -> None:
    portal = Portal("test")

    async def fail() -> None:
        raise ZeroDivisionError

    async def where() -> str:
        return threading.current_thread().name

    with pytest.raises(ZeroDivisionError):
        portal.call(fail)
    assert portal.call(where) == "holdfast-test"
    portal.close()
    portal.close()
