"""The stop of an engine: the order in which its workers end.

Promises: no new tasks are claimed; running handlers get a limited time; the other tasks are given back
without spending an attempt; outcomes are written if what is below answers. Never: closes anything.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from holdfast.clock import Clock
from holdfast.core.command import Instruction, Release
from holdfast.core.task import Task
from holdfast.engine.completer import Completer
from holdfast.engine.owned_runs import OwnedRuns
from holdfast.engine.pool import WorkerPool
from holdfast.engine.ports import Claims, GiveBack
from holdfast.engine.supervisor import Supervisor
from holdfast.errors import StoreUnavailable

UNWIND_SECONDS: Final = 2.0
"""Time for cancelled handlers to clean up during a stop."""
FLUSH_SECONDS: Final = 5.0
"""Time to commit outcomes after running tasks have used up the time of a stop."""


class Drain:
    """One for each engine."""

    def __init__(
        self,
        *,
        clock: Clock,
        supervisor: Supervisor,
        dispatcher: Claims,
        pool: WorkerPool,
        runs: OwnedRuns,
        completer: Completer,
        give_back: GiveBack,
        shutdown_timeout: float,
    ) -> None:
        self._clock = clock
        self._supervisor = supervisor
        self._dispatcher = dispatcher
        self._pool = pool
        self._runs = runs
        self._completer = completer
        self._give_back = give_back
        self._shutdown_timeout = shutdown_timeout
        self._hurried = False

    async def run(self, on_last_claim: Callable[[], None] = lambda: None) -> None:
        """Ends the work. `on_last_claim` is called when no further task is claimed."""
        flush_until = self._clock.monotonic() + self._shutdown_timeout
        await self._last_claim()
        self._dispatcher.stopping = True
        on_last_claim()
        await self.give_back(self._pool.take_unstarted(), "the worker stops before it was started")
        if not await self._pool.wait_quiet(self._shutdown_timeout):
            abandoned = self._runs.abandon()
            # Cancelled handlers clean up while they still hold the lease.
            await self._pool.wait_quiet(UNWIND_SECONDS)
            await self.give_back(abandoned, "the worker stops and the task took too long")
        await self._flush(flush_until)

    def hurry(self) -> None:
        """Ends the waiting: running handlers are cancelled, and outcomes get at most `FLUSH_SECONDS`."""
        self._hurried = True
        self._pool.hurry()

    async def give_back(self, tasks: Sequence[Task], reason: str) -> None:
        """Returns tasks to the queue. If what is below does not answer, their leases expire."""
        if not tasks:
            return
        for task in tasks:
            self._runs.by_id.pop(task.run, None)
        instructions = [Instruction(task.id, Release(reason), fence=task.fence) for task in tasks]
        try:
            await self._give_back(instructions)
        except StoreUnavailable:
            return

    async def scale(self) -> None:
        """Adds and removes workers, and gives back what waits too long. Runs until it is cancelled."""
        while True:
            self._pool.rescale()
            await self.give_back(self._pool.take_stalled(), "the workers here are busy for long")
            # Without tasks and extra workers there is nothing to do, and no timer. The first look after a
            # task has come is a second later, no later than if there had been a look each second.
            await self._pool.end_of_rest()
            await self._clock.sleep(1.0)

    async def _flush(self, until: float) -> None:
        """Waits until all outcomes are committed, in steps, so that `hurry` takes effect between them."""
        while not await self._completer.flush(FLUSH_SECONDS):
            if self._hurried or self._clock.monotonic() >= until:
                return

    async def _last_claim(self) -> None:
        """Starts tasks that were enqueued before the stop, if a worker is idle. Waits for a claim in
        progress: if it were cancelled, no worker would run the tasks that it claimed."""
        self._dispatcher.ending = True
        async with self._dispatcher.ticking:
            await self._supervisor.stop(self._dispatcher.name)
        if self._dispatcher.is_woken:
            await self._dispatcher.step()
        await asyncio.sleep(0)
