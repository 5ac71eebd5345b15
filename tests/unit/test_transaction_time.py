"""The time by which a transaction is judged is that of its beginning, not of the call.

Between the two the driver may wait for a connection and read a clock that it has not read for a while. A
holder counts its lease from its call, so a lease that counted from an earlier time ended before its holder
let go. Seed 51365 of the simulator.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any, TypeVar

import pytest

from holdfast.clock import VirtualClock
from holdfast.core.ids import Ids
from holdfast.store.backends import secret_ids
from holdfast.store.port import Dialect
from holdfast.store.script import Script
from holdfast.store.sqlite.dialect import SqliteDialect
from holdfast.store.sqlite.driver import SqliteDriver
from holdfast.store.store import Store

T = TypeVar("T")
WAIT_SECONDS = 7.0


class Late(SqliteDriver):
    """A driver whose transactions begin some time after the call."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__("", clock, inline=True)
        self._virtual = clock

    async def write(self, make: Callable[[], Script[T]], **options: Any) -> T:
        self._virtual.set(self._virtual.now() + WAIT_SECONDS)
        return await super().write(make, **options)


@pytest.fixture
async def store(clock: VirtualClock) -> AsyncIterator[Store]:
    store = Store(Late(clock), SqliteDialect(), secret_ids())
    await store.open()
    yield store
    await store.close()


def time_of(dialect: Dialect, ids: Ids, now: float) -> Script[float]:
    """The time by which the transaction is judged."""
    yield from ()
    return now


async def test_a_script_has_the_time_when_its_transaction_begins(
    clock: VirtualClock, store: Store
) -> None:
    called_at = clock.now()
    assert await store.run(time_of) == called_at + WAIT_SECONDS


async def test_so_has_a_script_of_a_part_of_the_store(clock: VirtualClock, store: Store) -> None:
    called_at = clock.now()
    assert await store._access.run(time_of) == called_at + WAIT_SECONDS
