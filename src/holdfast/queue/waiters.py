"""Callers that wait for tasks to end.

Promises: a task that ends in this process wakes its waiters at once; one that ends elsewhere wakes them
by the feed's hint, or by a look at the store each second at the latest.
"""

from __future__ import annotations

import asyncio
from typing import Final

from holdfast.bus.port import FEED
from holdfast.core.task import ENDED, Task
from holdfast.errors import NotFound, NotRunning, StoreUnavailable, WaitTimeout
from holdfast.queue.backend import Backend

LOOK_SECONDS: Final = 1.0
LOOK_MAX: Final = 500
GATHER_SECONDS: Final = 0.005


class Waiters:
    """One look at the store serves all who wait."""

    def __init__(self) -> None:
        self._futures: dict[str, list[asyncio.Future[Task]]] = {}
        self._backend: Backend | None = None
        self._task: asyncio.Task[None] | None = None
        self._stir = asyncio.Event()

    def attach(self, backend: Backend) -> None:
        self._backend = backend
        backend.bus.subscribe(self._hinted, FEED)

    def _hinted(self, topic: str) -> None:
        if self._futures:
            self._stir.set()

    async def wait(self, task_id: str, seconds: float | None) -> Task:
        """The task once it has ended; WaitTimeout after `seconds`."""
        assert self._backend is not None
        future: asyncio.Future[Task] = asyncio.get_running_loop().create_future()
        self._futures.setdefault(task_id, []).append(future)
        found = (await self._backend.store.get([task_id])).get(task_id)
        if found is None:
            self._drop(task_id, future)
            raise NotFound(f"task {task_id} does not exist: it may have been pruned")
        if found.status in ENDED:
            self.ended(found)
        elif self._task is None:
            self._task = asyncio.create_task(self._look(), name="holdfast-waiters")
        try:
            async with asyncio.timeout(seconds):
                return await future
        except TimeoutError:
            raise WaitTimeout(
                f"task {task_id} has not ended within {seconds:g} s: wait longer, or ask why() it waits"
            ) from None
        finally:
            self._drop(task_id, future)

    @property
    def is_anybody(self) -> bool:
        return bool(self._futures)

    def ended(self, task: Task) -> None:
        for future in self._futures.pop(task.id, ()):
            if not future.done():
                future.set_result(task)

    async def close(self) -> None:
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
        self._futures.clear()

    def _drop(self, task_id: str, future: asyncio.Future[Task]) -> None:
        futures = self._futures.get(task_id, [])
        if future in futures:
            futures.remove(future)
            if not futures:
                del self._futures[task_id]

    async def _look(self) -> None:
        assert self._backend is not None
        while True:
            await self._backend.clock.wait(self._stir, LOOK_SECONDS)
            # Ends that come in quick succession are looked up together.
            await self._backend.clock.sleep(GATHER_SECONDS)
            self._stir.clear()
            wanted = list(self._futures)
            if not wanted:
                self._task = None
                return
            for start in range(0, len(wanted), LOOK_MAX):
                await self._look_up(wanted[start : start + LOOK_MAX])

    async def _look_up(self, wanted: list[str]) -> None:
        assert self._backend is not None
        try:
            found = await self._backend.store.get(wanted)
        except StoreUnavailable:
            return
        for task in found.values():
            if task.status in ENDED:
                self.ended(task)
