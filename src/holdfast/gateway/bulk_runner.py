"""Advances bulk runs: those of this gateway, and those that another process has left.

Promises: every run that is `running` goes on, as long as some gateway of the store is up. A run that nothing
has advanced for `IDLE_SECONDS` is taken over; its figures say where it was. Correctness does not depend on
who advances a run: the transaction of a batch does.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final

from holdfast.clock import Clock
from holdfast.core.bulk import BulkRun, BulkSpec, BulkState
from holdfast.errors import HoldfastError, NotFound
from holdfast.store.beside import Beside
from holdfast.store.store import Store
from holdfast.sync.bulk import BulkRuns, Moved

LOOK_SECONDS: Final = 5.0
"""How often a gateway looks for runs that were left."""
IDLE_SECONDS: Final = 30.0
PAUSE_SECONDS_MAX: Final = 10.0
"""The longest pause between two batches of a run with a rate."""
log: Final = logging.getLogger("holdfast")


class BulkRunner:
    """Of one gateway. Without `running`, a run is advanced to its end by the call that began it."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        *,
        make_beside: Callable[[BulkSpec], Beside],
        on_changed: Callable[[], None],
        affinity_seconds: float = 0.0,
    ) -> None:
        self.runs = BulkRuns(store, affinity_seconds)
        self._store = store
        self._clock = clock
        self._make_beside = make_beside
        self._on_changed = on_changed
        self._is_running = False
        self._driven: dict[str, asyncio.Task[None]] = {}

    async def begin(self, run: BulkRun) -> None:
        """Advances a run from now on."""
        if self._is_running:
            self._start(run.id)
        else:
            await self.drive(run.id)

    async def drive(self, run_id: str) -> None:
        """Advances a run to its end, until it is stopped, or until another process advances it."""
        with suppress(Moved, NotFound):
            run = await self.runs.get(run_id)
            ids = await self.runs.ids(run_id)
            while run.state is BulkState.RUNNING:
                before = run.position
                run = await self.runs.advance(run, ids, self._make_beside)
                self._on_changed()
                pause = run.pause_seconds(run.position - before)
                if pause and run.state is BulkState.RUNNING:
                    await self._clock.sleep(min(pause, PAUSE_SECONDS_MAX))

    async def take_over(self) -> None:
        """Starts the runs that nothing has advanced for a while."""
        for run_id in await self.runs.idle(self._store.now() - IDLE_SECONDS):
            self._start(run_id)

    def _start(self, run_id: str) -> None:
        if run_id not in self._driven:
            task = asyncio.create_task(self._guarded(run_id), name=f"holdfast-{run_id}")
            self._driven[run_id] = task
            task.add_done_callback(lambda _: self._driven.pop(run_id, None))

    async def _guarded(self, run_id: str) -> None:
        """A run that fails is tried again when it counts as left."""
        try:
            await self.drive(run_id)
        except HoldfastError as error:
            log.warning("operation %s goes on later: %s", run_id, error)
        except Exception:
            log.exception("operation %s goes on later", run_id)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        self._is_running = True
        looking = asyncio.create_task(self._look_always(), name="holdfast-bulk-runs")
        try:
            yield
        finally:
            self._is_running = False
            tasks = [looking, *self._driven.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _look_always(self) -> None:
        while True:
            try:
                await self.take_over()
            except HoldfastError as error:
                log.warning("looking for operations that were left: %s", error)
            await self._clock.sleep(LOOK_SECONDS)
