"""Reads of the end of the feed, which the waiting readers of one event loop share.

Promises: of the readers that wait at one position, the first looks at intervals and the others have no timer.
A look that finds something, a hint, and the end of the first reader wake them. No reader waits longer than if
it looked alone: what the first has not found after its position, the others would not have found either.
Never: shares events, which readers may change.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from holdfast.clock import Clock
from holdfast.core.event import Position

T = TypeVar("T")


class Looks:
    """The readers of one event loop that wait."""

    __slots__ = ("_others",)

    def __init__(self) -> None:
        self._others: dict[Position | None, list[asyncio.Event]] = {}
        """What wakes the readers behind the first one, by position."""

    async def wait(
        self,
        position: Position | None,
        stir: asyncio.Event,
        look: Callable[[], Awaitable[list[T]]],
        *,
        clock: Clock,
        seconds: float,
        is_over: Callable[[], bool],
    ) -> list[T]:
        """Waits at a position where a reader has found nothing, until there may be something. Returns what
        was found, or nothing if the reader has to look for itself. A hint sets `stir`. The first reader looks
        after each hint and every `seconds`, until `is_over`."""
        others = self._others.get(position)
        if others is not None:
            others.append(stir)
            try:
                await stir.wait()
            finally:
                others.remove(stir)
            return []
        others = self._others[position] = []
        try:
            while True:
                await clock.wait(stir, seconds)
                stir.clear()
                page = await look()
                if page or is_over():
                    return page
        finally:
            del self._others[position]
            for other in others:
                other.set()
