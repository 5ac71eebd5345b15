"""Advances bulk runs: those of this gateway, and those that another process has left.

Promises: every run that is `running` goes on, as long as some gateway of the store is up. A run of which no
batch was tried for `IDLE_SECONDS` is taken over; its figures say where it was. A try that fails moves a run
behind the others. Correctness does not depend on who advances a run: the transaction of a batch does.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final, NamedTuple

from holdfast.clock import Clock
from holdfast.core.bulk import BATCH, BulkRun, BulkSpec, BulkState
from holdfast.errors import HoldfastError, NotFound
from holdfast.store.beside import Beside
from holdfast.store.port import RowHeld
from holdfast.store.store import Store
from holdfast.sync.bulk.bulk import BulkRuns, Moved

LOOK_SECONDS: Final = 5.0
"""How often a gateway looks for runs that were left."""
IDLE_SECONDS: Final = 30.0
TAKEN_MAX: Final = 10
"""Runs that one look takes over."""
log: Final = logging.getLogger("holdfast.gateway")


class _Driven(NamedTuple):
    """A run that this gateway advances."""

    task: asyncio.Task[None]
    changed: asyncio.Event
    """Set when the run was stopped or resumed here."""


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
        self._driven: dict[str, _Driven] = {}
        self._begun: set[str] = set()
        """Runs that this process began or resumed, while it looks after no others."""

    async def begin(self, run: BulkRun) -> None:
        """Advances a run from now on."""
        if self._is_running:
            self._begun.add(run.id)
            self._start(run.id)
        else:
            await self.drive(run.id)

    async def drive(self, run_id: str) -> None:
        """Advances a run to its end, until it is stopped, or until another process advances it."""
        with suppress(Moved, NotFound):
            await self._drive(run_id, asyncio.Event())

    async def take_over(self) -> None:
        """Starts the runs that nothing has advanced for a while."""
        before = self._store.now() - IDLE_SECONDS
        # Those that this gateway tries at this moment do not take the places of others.
        for run_id in await self.runs.idle(before, TAKEN_MAX + len(self._driven)):
            if run_id not in self._driven and await self.runs.take(run_id, before):
                self._start(run_id)

    def wake(self, run_id: str) -> None:
        """The run was stopped or resumed: a driver that pauses reads it again."""
        if run_id in self._driven:
            self._driven[run_id].changed.set()

    def _start(self, run_id: str) -> None:
        driven = self._driven.get(run_id)
        if driven is not None and not driven.task.done():
            driven.changed.set()
            return
        changed = asyncio.Event()
        task = asyncio.create_task(self._guarded(run_id, changed), name=f"holdfast-{run_id}")
        self._driven[run_id] = _Driven(task, changed)
        task.add_done_callback(lambda ended: self._forget(run_id, ended))

    def _forget(self, run_id: str, ended: asyncio.Task[None]) -> None:
        if self._driven[run_id].task is ended:
            del self._driven[run_id]

    async def _guarded(self, run_id: str, changed: asyncio.Event) -> None:
        """A run that was stopped and resumed meanwhile goes on. One that fails is tried again when it counts
        as left."""
        is_first = True
        while is_first or changed.is_set():
            is_first = False
            changed.clear()
            try:
                with suppress(Moved, NotFound):
                    await self._drive(run_id, changed)
            except HoldfastError as error:
                log.warning("operation %s goes on later: %s", run_id, error)
            except Exception:
                log.exception("operation %s goes on later", run_id)

    async def _drive(self, run_id: str, changed: asyncio.Event) -> None:
        run = await self.runs.get(run_id)
        ids = await self.runs.ids(run_id)
        most = BATCH
        while run.state is BulkState.RUNNING:
            pause_seconds = run.next_at - self._store.now()
            if pause_seconds > 0 and await self._clock.wait(changed, pause_seconds):
                changed.clear()
                run = await self.runs.get(run_id)
                continue
            run, most = await self._try(run, ids, most)
            self._on_changed()

    async def _try(self, run: BulkRun, ids: Sequence[str], most: int) -> tuple[BulkRun, int]:
        """The run after its next batch, and how many tasks the batch after it may have. If the tasks need a
        row that is held, they are tried one by one: those that need it are put aside."""
        try:
            return await self.runs.advance(run, ids, self._make_beside, most), min(2 * most, BATCH)
        except RowHeld as error:
            if most > 1:
                return run, 1
            log.debug("operation %s puts a task aside: %s", run.id, error)
            return await self.runs.put_aside(run, ids, most), 1
        except HoldfastError as error:
            with suppress(HoldfastError):
                await self.runs.delay(run, f"the last try failed: {error}")
            raise

    @asynccontextmanager
    async def running(self, *, only_own: bool = False) -> AsyncIterator[None]:
        """Advances runs in the background. `only_own`: those that were begun here, and no others."""
        self._is_running = True
        look = self._look_after_own if only_own else self.take_over
        looking = asyncio.create_task(self._look_always(look), name="holdfast-bulk-runs")
        try:
            yield
        finally:
            self._is_running = False
            tasks = [looking, *(driven.task for driven in self._driven.values())]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _look_after_own(self) -> None:
        """Starts runs whose last try failed. A run that has ended is only read."""
        for run_id in self._begun - self._driven.keys():
            self._start(run_id)

    async def _look_always(self, look: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await look()
            except HoldfastError as error:
                log.warning("looking for operations that were left: %s", error)
            await self._clock.sleep(LOOK_SECONDS)
