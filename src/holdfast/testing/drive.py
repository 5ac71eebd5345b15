"""Driving an engine by hand: its loops are stepped when they are due, in virtual time.

Promises: the same loops, pool and store as in production; a moment is worked off completely before the
clock goes on to the next. Never: moves the clock by itself beyond what was asked.
"""

from __future__ import annotations

import asyncio
import math
from typing import Final

from holdfast.clock import VirtualClock
from holdfast.core.schedule import Schedule
from holdfast.core.task import RunId, Status
from holdfast.engine.engine import Engine
from holdfast.engine.loop import Loop
from holdfast.store.store import Store

ROUNDS_MAX: Final = 100_000
SPINS: Final = 25
"""Turns of the event loop without any change after which a handler counts as waiting."""
PATIENCE_SECONDS: Final = 0.05
"""Real time that a handler in the event loop gets to come back from real input and output."""
THREAD_SECONDS: Final = 10.0
"""Real time that handlers in threads and processes get."""
PAUSE_SECONDS: Final = 0.001


class NeverIdle(Exception):
    """Work makes more work without end."""


class Driver:
    """Steps the loops of one engine."""

    def __init__(self, engine: Engine, store: Store, clock: VirtualClock) -> None:
        self.engine = engine
        self._store = store
        self._clock = clock
        self._due: set[Loop] = set(engine.loops)
        self._waiting: frozenset[RunId] = frozenset()

    async def run_until_idle(self) -> None:
        """Works off everything that is due now."""
        for _ in range(ROUNDS_MAX):
            due = [loop for loop in self.engine.loops if self._is_due(loop)]
            for loop in due:
                if await loop.step() > 0.0:
                    self._due.discard(loop)
            self.engine.pool.rescale()
            await self._settle()
            if not due and not any(self._is_due(loop) for loop in self.engine.loops):
                return
        raise NeverIdle(
            f"still not idle after {ROUNDS_MAX} rounds at {self._clock.now()}: does a task enqueue "
            "itself without a delay?"
        )

    async def advance_to(self, target: float) -> None:
        """Through every moment at which something is due, in order."""
        await self.run_until_idle()
        while True:
            moment = min(await self._next_moment(), target)
            wake = self._clock.next_wake()
            if wake is not None and wake < moment:
                self._clock.set(wake)
                await self.run_until_idle()
                continue
            self._clock.set(moment)
            self.engine.pool.deadlines.ring()
            self._due.update(self.engine.loops)
            await self.run_until_idle()
            if moment >= target:
                return

    def _is_due(self, loop: Loop) -> bool:
        return loop.is_woken or loop in self._due

    async def _next_moment(self) -> float:
        """The first time after now at which something is to happen. Polling is left out: what a poll
        would find is asked for by name."""
        now = self._clock.now()
        engine = self.engine
        ahead = await self._store.next_due(engine.dispatcher.queues)
        moments = [
            ahead.due_at,
            ahead.opens_at,
            *[s.next_at for s in await self._schedules() if not s.paused],
        ]
        held = engine.pool.held
        if held:
            moments.append(now + engine.config.lease_seconds / 3)
        running = await self._store.find(status=Status.RUNNING, limit=1_000)
        moments += [task.lease_until for task in running if task.run not in held]
        deadline = engine.pool.deadlines.next_at()
        if deadline is not None:
            moments.append(now + deadline - self._clock.monotonic())
        if engine.pool.workers > engine.pool.minimum:
            moments.append(now + 1.0)
        return min((at for at in moments if at is not None and at > now), default=math.inf)

    async def _schedules(self) -> list[Schedule]:
        return [Schedule(*row) for row in await self._store.query("schedules")]

    async def _settle(self) -> None:
        """Lets handlers run until they have ended or wait for something that is not here."""
        patience = 0.0
        while True:
            before = self._state()
            for _ in range(SPINS):
                await asyncio.sleep(0)
            if self._state() != before:
                patience = 0.0
                continue
            busy = frozenset(h.run for h in self.engine.pool.held.values() if h.worker)
            limit = THREAD_SECONDS if self._is_elsewhere() else PATIENCE_SECONDS
            if not busy or busy == self._waiting or patience >= limit:
                self._waiting = busy
                return
            await asyncio.sleep(PAUSE_SECONDS)
            patience += PAUSE_SECONDS

    def _state(self) -> tuple[object, ...]:
        """What changes whenever a handler gets on."""
        pool = self.engine.pool
        woken = tuple(loop.is_woken for loop in self.engine.loops)
        return pool.busy, len(pool.held), woken, self._clock.next_wake()

    def _is_elsewhere(self) -> bool:
        """Whether a handler runs in a thread or a process, whose time is real."""
        pool = self.engine.pool
        busy = (held.task.type for held in pool.held.values() if held.worker)
        return any(self.engine.runs_elsewhere(task_type) for task_type in busy)
