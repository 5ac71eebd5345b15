"""Waits for what processes on hosts have done."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

LOOK_SECONDS: Final = 0.01
"""Between two looks: a loop without pauses would take the processor from those processes."""


async def until(is_so: Callable[[], Awaitable[bool]]) -> None:
    while not await is_so():  # noqa: ASYNC110 - a file and a row set no event
        await asyncio.sleep(LOOK_SECONDS)
