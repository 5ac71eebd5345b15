"""Wrong calls of retries, of Redlock, and of locks and ledgers for threads: a typed error, no effect."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.core.retry import RetryPolicy
from holdfast.primitives.idempotency import BlockingLedger
from holdfast.primitives.kv import RedisKV
from holdfast.primitives.locks import (
    AsyncRedlock,
    BlockingEfficiencyLocks,
    BlockingLocks,
    EfficiencyLocks,
    Redlock,
)
from holdfast.primitives.locks.distributed import DistributedLock, update_with_retry
from holdfast.primitives.retry import (
    RetryBudget,
    aretry,
    aretry_with_log,
    retry,
    retry_with_log,
    retrying,
)
from tests.bad_input import Surface
from tests.integration.test_bad_input import check_same, codes_of
from tests.integration.test_bad_input_primitives import LEDGER, LOCKS

RETRIES = SimpleNamespace(
    retry=retry,
    aretry=aretry,
    retry_with_log=retry_with_log,
    aretry_with_log=aretry_with_log,
    retrying=retrying,
    update_with_retry=update_with_retry,
    RetryBudget=RetryBudget,
    Policy=RetryPolicy,
)
RETRY_KINDS = {
    **dict.fromkeys(("call", "operation", "retryable"), "callable"),
    **dict.fromkeys(("on_retry", "deterministic_clock"), "callable?"),
    **dict.fromkeys(("attempts", "max_retries"), "whole"),
    **dict.fromkeys(("base_ms", "max_delay_ms", "capacity", "per_call", "per_second"), "number"),
    "deadline_ms": "number?",
    "jitter_off": "flag",
    "idem_key": "kv text?",
    "budget": "budget?",
    "name": "name",
    **dict.fromkeys(("clock", "logger", "meter"), "object"),
}
REDLOCK_KINDS = {"resource": "name", "token": "name", "ttl_ms": "whole"}
REDLOCK_KINDS |= dict.fromkeys(("acquire.token", "grant.token"), "name?")
REDLOCK_GOOD = {"resource": "r", "token": "t", "ttl_ms": 1_000}
NEVER = frozenset({"connect", "close"})


async def test_a_wrong_retry_is_a_typed_error_before_the_first_attempt() -> None:
    calls: list[int] = []
    good = {"call": lambda: calls.append(1), "operation": lambda: calls.append(1)}
    check_same([await codes_of(Surface(RETRIES, RETRY_KINDS, good), RETRIES)])
    assert calls == []


@pytest.fixture
def redis(redis_url: str) -> Iterator[RedisKV]:
    """To check that nothing was written."""
    with RedisKV.connect(redis_url) as kv:
        yield kv
        assert kv.scan(count=1_000) == (0, [])


async def test_a_wrong_call_of_redlock(redis: RedisKV, redis_url: str) -> None:
    surface = Surface(Redlock, REDLOCK_KINDS, REDLOCK_GOOD, leave_out=NEVER)
    with Redlock() as memory, Redlock.connect(redis_url) as live:
        check_same([await codes_of(surface, each) for each in (memory, live)])
    awaited = Surface(AsyncRedlock, REDLOCK_KINDS, REDLOCK_GOOD, leave_out=NEVER)
    async with AsyncRedlock.connect(redis_url) as other:
        check_same([await codes_of(awaited, other)])


async def test_a_wrong_call_of_efficiency_locks(redis: RedisKV, redis_url: str) -> None:
    surface = Surface(EfficiencyLocks, LOCKS.kinds, LOCKS.good, leave_out=NEVER)
    async with EfficiencyLocks.connect(redis_url) as locks:
        check_same([await codes_of(surface, locks)])
    blocking = Surface(BlockingEfficiencyLocks, LOCKS.kinds, LOCKS.good, leave_out=NEVER)
    with BlockingEfficiencyLocks.connect(redis_url) as threads:
        check_same([await codes_of(blocking, threads)])


async def test_a_wrong_call_of_distributed_locks(redis: RedisKV, redis_url: str) -> None:
    kinds = {"resource": "name", "ttl": "whole"}
    surface = Surface(DistributedLock, kinds, {"resource": "r"}, leave_out=NEVER)
    async with (
        DistributedLock.connect("memory://") as one,
        DistributedLock.connect(redis_url) as two,
    ):
        check_same([await codes_of(surface, each) for each in (one, two)])


async def test_a_wrong_call_of_locks_for_threads(tmp_path: Path) -> None:
    surface = Surface(BlockingLocks, LOCKS.kinds, LOCKS.good, leave_out=NEVER)
    found: list[Any] = []
    for url in ("memory://", f"sqlite:///{tmp_path}/l.db"):
        with BlockingLocks.connect(url) as locks:
            found.append(await codes_of(surface, locks))
            assert locks.list() == []
    check_same(found)


async def test_a_wrong_call_of_a_ledger_for_threads(tmp_path: Path) -> None:
    surface = Surface(BlockingLedger, LEDGER.kinds, LEDGER.good, leave_out=LEDGER.leave_out)
    found: list[Any] = []
    for url in ("memory://", f"sqlite:///{tmp_path}/e.db"):
        with BlockingLedger.connect(url) as ledger:
            found.append(await codes_of(surface, ledger))
            assert ledger.unfinished() == []
            assert ledger.get("s", "o", "k") is None
    check_same(found)


def test_a_wrong_address_of_a_lock_is_a_typed_error() -> None:
    made = SimpleNamespace(
        one=Redlock.connect, two=AsyncRedlock.connect, three=EfficiencyLocks.connect
    )
    kinds = {"urls": "urls", "timeout_seconds": "number"}
    kinds |= dict.fromkeys(("clock", "ids", "meter"), "object")
    surface = Surface(made, kinds, {"urls": "redis://localhost"})
    check_same([asyncio.run(codes_of(surface, made))])
