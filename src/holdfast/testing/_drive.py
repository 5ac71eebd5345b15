"""Steps the loops of an engine in virtual time.

Promises: uses the same loops, pool and store as production; all work of one point in time is finished
before the clock advances to the next. Never: moves the clock further than requested.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Final

from holdfast.clock import VirtualClock
from holdfast.core.lease import renewal_interval
from holdfast.core.schedule import Schedule
from holdfast.core.task import RunId, Status, Task
from holdfast.engine.engine import Engine
from holdfast.engine.loop import Loop
from holdfast.store.store import Store

ROUNDS_MAX: Final = 100_000
SPINS: Final = 25
"""Iterations of the event loop without a change after which a handler counts as waiting."""
PATIENCE_SECONDS: Final = 0.05
"""Real time that a handler in the event loop gets for real input and output."""
THREAD_SECONDS: Final = 10.0
"""Real time that handlers in threads and processes get."""
PAUSE_SECONDS: Final = 0.001
STALL_SECONDS: Final = 1.0
"""Real time without a step after which a wait for a task fails."""


_STALLED: Final = (
    "task {task_id} has not ended, and nothing runs in the harness while the test waits for it: "
    "await h.run_until_idle() or h.advance(seconds) first, then ask for the result"
)


class NeverIdle(Exception):
    """Tasks create new tasks without end."""


class Driver:
    """Steps the loops of one engine."""

    def __init__(self, engine: Engine, store: Store, clock: VirtualClock) -> None:
        self.engine = engine
        self._store = store
        self._clock = clock
        self._due: set[Loop] = set(engine.loops)
        self._waiting: frozenset[RunId] = frozenset()
        self._steps = 0
        """Counts the steps, so that a wait notices when there are none."""

    async def run_until_idle(self) -> None:
        """Runs all work that is due now."""
        for _ in range(ROUNDS_MAX):
            self._steps += 1
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
        """Advances the clock to `target` and stops at each time at which work is due."""
        await self.run_until_idle()
        while True:
            due_at = min(await self._next_due(), target)
            wake = self._clock.next_wake()
            if wake is not None and wake < due_at:
                self._clock.set(wake)
                await self.run_until_idle()
                continue
            self._clock.set(due_at)
            self.engine.runner.deadlines.ring()
            self._due.update(self.engine.loops)
            await self.run_until_idle()
            if due_at >= target:
                return

    def watch(self, task_id: str, wait: asyncio.Future[Task]) -> Callable[[], None]:
        """Fails a wait for a task while no call steps the loops: it would never end. Returns a function that
        ends the watch."""
        event_loop = asyncio.get_running_loop()
        timer: asyncio.TimerHandle

        def look(steps: int) -> None:
            nonlocal timer
            if self._steps == steps and not wait.done():
                wait.set_exception(RuntimeError(_STALLED.format(task_id=task_id)))
                return
            timer = event_loop.call_later(STALL_SECONDS, look, self._steps)

        timer = event_loop.call_later(STALL_SECONDS, look, self._steps)

        def end() -> None:
            timer.cancel()

        return end

    def _is_due(self, loop: Loop) -> bool:
        return loop.is_woken or loop in self._due

    async def _next_due(self) -> float:
        """The next time at which work is due. Polls do not count: the store is asked for what they would
        find."""
        now = self._clock.now()
        engine = self.engine
        upcoming = await self._store.backlog.next_due(engine.dispatcher.queues)
        times = [
            upcoming.due_at,
            upcoming.opens_at,
            *[s.next_at for s in await self._schedules() if not s.paused],
        ]
        runs = engine.runs.by_id
        if runs:
            times.append(now + renewal_interval(engine.config.lease_seconds))
        running = await self._store.reads.find(status=Status.RUNNING, limit=1_000)
        times += [task.lease_until for task in running if task.run not in runs]
        deadline = engine.runner.deadlines.next_at()
        if deadline is not None:
            times.append(now + deadline - self._clock.monotonic())
        if engine.pool.workers > engine.pool.minimum:
            times.append(now + 1.0)
        return min((at for at in times if at is not None and at > now), default=math.inf)

    async def _schedules(self) -> list[Schedule]:
        return await self._store.reads.schedules()

    async def _settle(self) -> None:
        """Runs handlers until they have ended or wait for something outside the engine."""
        waited = 0.0
        while True:
            before = self._state()
            for _ in range(SPINS):
                await asyncio.sleep(0)
            if self._state() != before:
                waited = 0.0
                continue
            busy = frozenset(run.run for run in self.engine.runs.by_id.values() if run.worker)
            limit = THREAD_SECONDS if self._is_elsewhere() else PATIENCE_SECONDS
            if not busy or busy == self._waiting or waited >= limit:
                self._waiting = busy
                return
            await asyncio.sleep(PAUSE_SECONDS)
            waited += PAUSE_SECONDS

    def _state(self) -> tuple[object, ...]:
        """A value that changes whenever a handler makes progress."""
        pool = self.engine.pool
        woken = tuple(loop.is_woken for loop in self.engine.loops)
        return pool.busy, len(self.engine.runs.by_id), woken, self._clock.next_wake()

    def _is_elsewhere(self) -> bool:
        """Whether a handler runs in a thread or a process, which needs real time."""
        runs = self.engine.runs.by_id.values()
        busy = (owned.task.type for owned in runs if owned.worker)
        return any(self.engine.runs_elsewhere(task_type) for task_type in busy)
