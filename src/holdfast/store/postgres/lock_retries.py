"""Waits for rows that other transactions hold, without occupying a connection.

The transaction of a caller waits for a lock on the server only briefly. If the row is still held, the caller
returns its connection, pauses, and runs its transaction again. Few callers of a pool do so at a time.
Promises: callers that wait for held rows leave the connections to others. Each wait has a limit.
Never: repeats a transaction that may have been committed. One that waited for a lock was rolled back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from holdfast.store.port import RowHeld

T = TypeVar("T")
LOCK_MILLISECONDS: Final = 30
"""Most transactions of Holdfast are shorter. Each caller that meets a held row occupies a connection for this
time, before it waits here."""
BEGIN_BRIEFLY: Final = f"BEGIN; SET LOCAL lock_timeout = {LOCK_MILLISECONDS}"
"""One round trip, like BEGIN alone."""
TRIES_AT_ONCE: Final = 2
"""Retries of a pool at once, which is how many connections they may occupy."""
PAUSE_SECONDS: Final = 0.02
PAUSE_SECONDS_MAX: Final = 0.25


class LockRetries:
    """The retries of one pool."""

    def __init__(self) -> None:
        self._turns = asyncio.Semaphore(TRIES_AT_ONCE)

    async def outlast(
        self, held: RowHeld, attempt: Callable[[], Awaitable[T]], *, wait_seconds: float
    ) -> T:
        """Repeats the attempt until the row is free, and returns its answer. Raises RowHeld after
        `wait_seconds`."""
        until = asyncio.get_running_loop().time() + wait_seconds
        pause_seconds = PAUSE_SECONDS
        while await self._has_turn(until, pause_seconds):
            try:
                return await attempt()
            except RowHeld as again:
                held = again
            finally:
                self._turns.release()
            pause_seconds = min(2 * pause_seconds, PAUSE_SECONDS_MAX)
        raise held

    async def _has_turn(self, until: float, pause_seconds: float) -> bool:
        """Pauses, then waits for a turn. Returns False if the time is up before."""
        try:
            async with asyncio.timeout_at(until):
                await asyncio.sleep(pause_seconds)
                return await self._turns.acquire()
        except TimeoutError:
            return False
