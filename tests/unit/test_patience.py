"""Waits for held rows: few try at a time, and each for a limited time."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.store.port import RowHeld
from holdfast.store.postgres.lock_retries import TRIES_AT_ONCE, LockRetries

CALLERS = 20


class Row:
    """Held until it has been tried a number of times."""

    def __init__(self, tries: int) -> None:
        self.tries_left = tries
        self.trying = 0
        self.most = 0

    async def take(self) -> str:
        self.trying += 1
        self.most = max(self.most, self.trying)
        await asyncio.sleep(0)
        self.trying -= 1
        self.tries_left -= 1
        if self.tries_left >= 0:
            raise RowHeld(f"{self.tries_left} tries left")
        return "taken"


async def test_few_try_at_a_time_and_all_get_the_row_when_it_is_free() -> None:
    patience, row = LockRetries(), Row(2 * CALLERS)
    answers = await asyncio.gather(
        *(patience.outlast(RowHeld("first"), row.take, wait_seconds=10) for _ in range(CALLERS))
    )
    assert answers == ["taken"] * CALLERS
    assert row.most == TRIES_AT_ONCE


def hold_turns(
    patience: LockRetries, until: asyncio.Event, all_begun: asyncio.Event
) -> list[asyncio.Task[bool]]:
    """Callers whose tries take long."""
    begun = list[bool]()

    async def hold() -> bool:
        begun.append(True)
        if len(begun) == TRIES_AT_ONCE:
            all_begun.set()
        return await until.wait()

    return [
        asyncio.create_task(patience.outlast(RowHeld(""), hold, wait_seconds=10))
        for _ in range(TRIES_AT_ONCE)
    ]


async def test_the_wait_is_bounded_also_without_a_turn() -> None:
    patience, never, all_begun = LockRetries(), asyncio.Event(), asyncio.Event()
    holders = hold_turns(patience, never, all_begun)
    await all_begun.wait()
    with pytest.raises(RowHeld, match="first"):
        await patience.outlast(RowHeld("first"), never.wait, wait_seconds=0.1)
    never.set()
    assert all(await asyncio.gather(*holders))


async def test_a_caller_that_is_cancelled_leaves_its_turn_to_others() -> None:
    patience, never, all_begun = LockRetries(), asyncio.Event(), asyncio.Event()
    holders = hold_turns(patience, never, all_begun)
    await all_begun.wait()
    for holder in holders:
        holder.cancel()
    assert await patience.outlast(RowHeld(""), Row(0).take, wait_seconds=5) == "taken"
    await asyncio.gather(*holders, return_exceptions=True)


async def test_other_errors_end_the_wait() -> None:
    async def fail() -> None:
        raise ValueError("no such thing")

    with pytest.raises(ValueError, match="no such thing"):
        await LockRetries().outlast(RowHeld("first"), fail, wait_seconds=5)
