"""What a ledger has open, for each event loop that uses it.

Event loops share the store; locks, events and tasks belong to one loop.
Promises: the store is opened on first use in a loop. Closing affects the running loop only, ends every wait
with NotRunning, and waits a bounded time for running effects, so that their outcomes are recorded.
"""

from __future__ import annotations

import asyncio

from holdfast.clock import Clock
from holdfast.errors import NotRunning
from holdfast.forks import PassiveFollower, follow
from holdfast.store.store import Store
from holdfast.store.uncancelled import UncancelledWrites


class LoopState:
    """From the first use in a loop until `close`, or until the loop ends."""

    __slots__ = ("closing", "ended", "is_closed", "is_open", "opening", "running", "writes")

    def __init__(self) -> None:
        self.opening = asyncio.Lock()
        self.is_open = False
        self.is_closed = False
        self.closing = asyncio.Event()
        self.running: set[str] = set()
        """Owners of entries whose effects run."""
        self.ended = asyncio.Event()
        """An effect or a write has ended."""
        self.writes = UncancelledWrites()
        """Writes that are finished although their caller was cancelled."""


class LedgerLoops(PassiveFollower):
    """The event loops of one ledger."""

    def __init__(self, store: Store, clock: Clock, *, opened: bool) -> None:
        """`opened`: the caller opens and closes the store."""
        self.store = store
        self._clock = clock
        self._owns_store = not opened
        self._is_closed = False
        self._states: dict[asyncio.AbstractEventLoop, LoopState] = {}
        self._was_left_open = False
        """A loop ended without closing the ledger."""
        follow(self)

    @property
    def current(self) -> LoopState:
        """The state of the running event loop."""
        loop = asyncio.get_running_loop()
        state = self._states.get(loop)
        if state is None:
            for ended_loop in [other for other in list(self._states) if other.is_closed()]:
                ended = self._states.pop(ended_loop, None)
                self._was_left_open = self._was_left_open or (ended is not None and ended.is_open)
            state = self._states[loop] = LoopState()
        return state

    async def open(self) -> None:
        if not self._owns_store:
            return
        state = self.current
        if state.is_open:
            return
        async with state.opening:
            if self._is_closed or state.is_closed:
                raise NotRunning("this ledger was closed: connect again")
            if not state.is_open:
                await self.store.open()
                state.is_open = True

    async def close(self, wait: float) -> None:
        """Running effects get `wait` seconds to end. The lease of an effect that takes longer expires."""
        state = self.current
        state.closing.set()
        until = self._clock.monotonic() + wait
        while (state.running or state.writes.tasks) and (
            left := until - self._clock.monotonic()
        ) > 0:
            state.ended.clear()
            for task in state.writes.tasks:
                task.add_done_callback(lambda _: state.ended.set())
            await self._clock.wait(state.ended, left)
        async with state.opening:
            state.is_closed = True
            self._is_closed = not any(not other.is_closed for other in self._states.values())
            if state.is_open or self._was_left_open:
                state.is_open = self._was_left_open = False
                await self.store.close()

    def start_over(self) -> None:
        """A forked child starts without event loops."""
        self._states = {}
