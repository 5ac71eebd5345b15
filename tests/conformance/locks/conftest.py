"""Locks over every backend that has a fence."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast.clock import VirtualClock
from holdfast.primitives.locks import Locks
from tests.backends import LEASES, make_bench
from tests.conformance.locks.support import LocksBench


@pytest.fixture(params=LEASES)
def any_locks_bench(
    request: pytest.FixtureRequest, clock: VirtualClock, tmp_path: Path
) -> LocksBench:
    if request.param == "memory":
        return LocksBench(clock, None)
    return LocksBench(clock, make_bench(request.param, request, clock, tmp_path))


@pytest.fixture
async def locks_bench(any_locks_bench: LocksBench) -> AsyncIterator[LocksBench]:
    yield any_locks_bench
    await any_locks_bench.close()


@pytest.fixture
async def locks(locks_bench: LocksBench) -> Locks:
    return await locks_bench.open("a")


@pytest.fixture
async def others(locks_bench: LocksBench, locks: Locks) -> Locks:
    """The locks of another process."""
    return await locks_bench.open("b")
