"""Turns: one request of a key at a time, in order, and nothing stays behind."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.gateway.turns import Turns


async def test_requests_of_a_key_take_turns_in_order() -> None:
    turns, seen, running = Turns(), [], 0

    async def request(n: int) -> None:
        nonlocal running
        async with turns.turn("a"):
            running += 1
            assert running == 1
            await asyncio.sleep(0)
            seen.append(n)
            running -= 1

    await asyncio.gather(*(request(n) for n in range(20)))
    assert seen == list(range(20))
    assert len(turns) == 0


async def test_other_keys_do_not_wait() -> None:
    turns = Turns()
    async with turns.turn("a"), turns.turn("b"):
        assert len(turns) == 2
    assert len(turns) == 0


async def test_a_failed_or_cancelled_request_lets_the_next_one_go() -> None:
    turns, entered = Turns(), asyncio.Event()

    async def hold() -> None:
        async with turns.turn("a"):
            entered.set()
            await asyncio.Event().wait()

    async def wait() -> None:
        async with turns.turn("a"):
            raise ValueError("no")

    first, second = asyncio.create_task(hold()), asyncio.create_task(hold())
    third = asyncio.create_task(wait())
    await entered.wait()
    second.cancel()
    first.cancel()
    with pytest.raises(ValueError, match="no"):
        await third
    await asyncio.gather(first, second, return_exceptions=True)
    assert len(turns) == 0
