"""The leases that one set of locks holds, and a watch for suspended machines.

The timers of a suspended machine stand still; its leases do not. After the machine resumes, every lease
compares its deadline with the clock instead of waiting for its timer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Final, Generic, TypeVar

from holdfast.clock import Clock
from holdfast.primitives.locks.lease import HeldLease

L = TypeVar("L", bound=HeldLease)
SUSPEND_CHECK_SECONDS: Final = 1.0
"""How often the clock is compared with the timers while leases are held."""


class HeldLeases(Generic[L]):
    """Belongs to one event loop."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._leases: dict[L, None] = {}  # in order of grants: a set is ordered by address
        self._none_held = asyncio.Event()
        self._suspend_watch: asyncio.Task[None] | None = None

    def __iter__(self) -> Iterator[L]:
        return iter(self._leases)

    def __bool__(self) -> bool:
        return bool(self._leases)

    def start(self, lease: L) -> L:
        """Adds a granted lease and starts its renewal."""
        self._leases[lease] = None
        self._none_held.clear()
        lease.start(lambda: self._remove(lease))
        if self._suspend_watch is None or self._suspend_watch.done():
            self._suspend_watch = asyncio.create_task(self._watch_for_suspend())
        return lease

    def shut_down(self) -> None:
        """Declares every lease lost and releases it in the background, in the order of grants."""
        for lease in list(self._leases):
            lease.shut_down()

    def stop_watching(self) -> None:
        if self._suspend_watch is not None:
            self._suspend_watch.cancel()

    def _remove(self, lease: L) -> None:
        self._leases.pop(lease, None)
        if not self._leases:
            self._none_held.set()

    async def _watch_for_suspend(self) -> None:
        while self._leases:
            before = self._clock.monotonic()
            await self._clock.wait(self._none_held, SUSPEND_CHECK_SECONDS)
            if self._clock.monotonic() - before > 2 * SUSPEND_CHECK_SECONDS:
                for lease in list(self._leases):
                    lease.check_deadline()
