"""Waits for rows that other transactions hold, without a connection meanwhile.

The transaction of a caller waits for a lock only for a moment on the server. A caller that meets a held row
gives its connection back, pauses, and runs its transaction again; few callers of a pool do so at a time.
Promises: callers that wait for held rows leave the connections to others; each wait has a limit. Never:
runs again what may have been committed. A transaction that waited for a lock was rolled back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from holdfast.store.port import RowHeld

T = TypeVar("T")
LOCK_MILLISECONDS: Final = 30
"""Most transactions of ours take less. Of many callers that meet one held row at once, each keeps a
connection for so long before it waits here."""
BEGIN_BRIEFLY: Final = f"BEGIN; SET LOCAL lock_timeout = {LOCK_MILLISECONDS}"
"""One round trip, like BEGIN alone."""
TRIES_AT_ONCE: Final = 2
"""Connections of a pool on which held rows are tried again."""
PAUSE_SECONDS: Final = 0.02
PAUSE_SECONDS_MAX: Final = 0.25


class LockRetries:
    """One for each pool."""

    def __init__(self) -> None:
        self._turns = asyncio.Semaphore(TRIES_AT_ONCE)

    async def outlast(
        self, held: RowHeld, attempt: Callable[[], Awaitable[T]], *, wait_seconds: float
    ) -> T:
        """The attempt's answer, once the row is free. After `wait_seconds` RowHeld is raised."""
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
        """After a pause, and in turn; False when the time is up before."""
        try:
            async with asyncio.timeout_at(until):
                await asyncio.sleep(pause_seconds)
                return await self._turns.acquire()
        except TimeoutError:
            return False
