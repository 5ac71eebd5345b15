"""The time of a wait counts from the first look of a command."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.cli.follow import Patience
from holdfast.errors import WaitTimeout


async def test_a_first_look_is_not_cut_off() -> None:
    patience = Patience(0.0)

    async def look() -> str:
        for _ in range(10):
            await asyncio.sleep(0)
        return "seen"

    assert await patience.bound(look()) == "seen"


async def test_the_wait_after_it_is_bounded() -> None:
    patience = Patience(0.0)

    async def look_and_wait() -> None:
        while True:
            patience.begin()
            await asyncio.sleep(0)

    with pytest.raises(WaitTimeout, match="within 0 s"):
        await patience.bound(look_and_wait())


async def test_without_a_time_it_waits() -> None:
    patience = Patience(None)

    async def work() -> int:
        patience.begin()
        await asyncio.sleep(0)
        return 1

    assert await patience.bound(work()) == 1
