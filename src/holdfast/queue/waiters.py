"""Callers that wait for tasks to end.

Promises: a task that ends in this process wakes its waiters at once. A task that ends elsewhere wakes them
after a hint of the feed, or after the next poll of the store, one second later at most. A wait leaves nothing
behind, also if it fails. Never: more than `WAITS_MAX` waits at once.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, TypeAlias

from holdfast.bus.port import FEED, Bus
from holdfast.clock import Clock
from holdfast.core.task import ENDED, Status, Task
from holdfast.errors import NotFound, NotRunning, QueueFull, StoreUnavailable, WaitTimeout
from holdfast.store.store import Store

LOOK_SECONDS: Final = 1.0
LOOK_MAX: Final = 500
GATHER_SECONDS: Final = 0.005
EXPLAIN_SECONDS: Final = 5.0
WAITS_MAX: Final = 100_000
"""The number of callers of one event loop that may wait at once."""
log = logging.getLogger("holdfast.queue")

Hindrance: TypeAlias = Callable[[Store, str], Awaitable[str]]
"""Says why a task cannot start, if only an operator can change it. '' otherwise."""


class Waiters:
    """The waiting callers of one event loop. One read of the store serves all of them."""

    def __init__(
        self, store: Store, bus: Bus, clock: Clock, hindrance: Hindrance | None = None
    ) -> None:
        self._store = store
        self._hindrance = hindrance
        self._clock = clock
        self._futures: dict[str, set[asyncio.Future[Task]]] = {}
        self._count = 0
        self._since: dict[str, float] = {}
        """When the first wait for a task began. Removed once its reason was looked up."""
        self._explained: set[str] = set()
        """Types whose reason to wait was logged."""
        self._task: asyncio.Task[None] | None = None
        self._stir = asyncio.Event()
        self.watch: Callable[[str, asyncio.Future[Task]], Callable[[], None]] | None = None
        """Called when a wait begins. Returns what to call at its end. It may fail a wait that cannot end."""
        self._unsubscribe: Callable[[], None] = bus.subscribe(self._hinted, FEED)

    def _hinted(self, topic: str) -> None:
        if self._futures:
            self._stir.set()

    async def wait(self, task_id: str, seconds: float | None) -> Task:
        """Returns the task when it has ended. Raises WaitTimeout after `seconds`."""
        if self._count >= WAITS_MAX:
            raise QueueFull(
                f"{WAITS_MAX} callers of this queue already wait for results: try again later"
            )
        future: asyncio.Future[Task] = asyncio.get_running_loop().create_future()
        self._add(task_id, future)
        try:
            await self._look_first(task_id)
            if self.watch is not None:
                future.add_done_callback(_ignored(self.watch(task_id, future)))
            async with asyncio.timeout(seconds):
                return await future
        except TimeoutError:
            raise WaitTimeout.of_task(task_id, seconds or 0.0) from None
        finally:
            self._drop(task_id, future)

    async def _look_first(self, task_id: str) -> None:
        """Reads the task once, because it may have ended before the wait began."""
        task = (await self._store.reads.get([task_id])).get(task_id)
        if task is None:
            raise NotFound(f"task {task_id} does not exist: it may have been pruned")
        if task.status in ENDED:
            self.ended(task)
        elif self._task is None:
            self._task = asyncio.create_task(self._look(), name="holdfast-waiters")

    @property
    def has_waiters(self) -> bool:
        return bool(self._futures)

    def ended(self, task: Task) -> None:
        for future in self._futures.get(task.id, ()):
            if not future.done():
                future.set_result(task)

    async def close(self) -> None:
        self._unsubscribe()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        for futures in self._futures.values():
            for future in futures:
                if not future.done():
                    future.set_exception(
                        NotRunning("the queue was stopped while waiting for a result")
                    )

    def _add(self, task_id: str, future: asyncio.Future[Task]) -> None:
        if task_id not in self._futures:
            self._since[task_id] = self._clock.monotonic()
        self._futures.setdefault(task_id, set()).add(future)
        self._count += 1

    def _drop(self, task_id: str, future: asyncio.Future[Task]) -> None:
        """Removes the future of a wait that has ended."""
        futures = self._futures[task_id]
        futures.remove(future)
        self._count -= 1
        if not futures:
            del self._futures[task_id]
            self._since.pop(task_id, None)

    async def _look(self) -> None:
        while True:
            await self._clock.wait(self._stir, LOOK_SECONDS)
            # Tasks that end in quick succession are read together.
            await self._clock.sleep(GATHER_SECONDS)
            self._stir.clear()
            ids = list(self._futures)
            if not ids:
                self._task = None
                return
            for start in range(0, len(ids), LOOK_MAX):
                await self._look_up(ids[start : start + LOOK_MAX])

    async def _look_up(self, ids: list[str]) -> None:
        try:
            tasks = await self._store.reads.get(ids)
        except StoreUnavailable:
            return
        except Exception:
            log.exception("reading %d awaited tasks failed and is retried", len(ids))
            return
        for task in tasks.values():
            if task.status in ENDED:
                self.ended(task)
        await self._explain(tasks)

    async def _explain(self, tasks: dict[str, Task]) -> None:
        """Logs, once for each type, why a task that a caller awaits for some seconds cannot start."""
        if self._hindrance is None:
            return
        before = self._clock.monotonic() - EXPLAIN_SECONDS
        for task in tasks.values():
            if task.status is not Status.QUEUED or task.type in self._explained:
                continue
            if self._since.get(task.id, math.inf) > before:
                continue
            del self._since[task.id]
            with suppress(StoreUnavailable, NotFound):
                if why := await self._hindrance(self._store, task.id):
                    self._explained.add(task.type)
                    log.warning("a caller waits for a task that cannot start: %s", why)
            return  # One look-up for each poll is enough.


def _ignored(call: Callable[[], None]) -> Callable[[object], None]:
    return lambda _: call()
