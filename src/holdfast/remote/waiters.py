"""Callers that wait for tasks to end, on a queue without a database.

Promises: a task that ends in this process wakes its waiters at once; one that ends elsewhere after its event.
One request that waits for events serves all callers. A wait leaves nothing behind.
"""

from __future__ import annotations

import asyncio
from typing import Final

from holdfast.client.calls import Answer, path_of
from holdfast.client.http import Http
from holdfast.client.patience import patiently
from holdfast.core import codec
from holdfast.core.task import ENDED, Status, Task
from holdfast.errors import FeedReset, HoldfastError, NotFound, QueueFull, WaitTimeout
from holdfast.queue import views
from holdfast.queue.batcher import Batcher

WAITS_MAX: Final = 100_000
READS_MAX: Final = 8
"""Tasks that are read at the same time."""
IDS_MAX: Final = 40
"""Tasks whose status one request reads."""
POLL_SECONDS: Final = 20.0
EVENTS_PAGE: Final = 500
KINDS: Final = "task.completed,task.dead,task.aborted"
"""The events of a task that ends."""


class RemoteWaiters:
    """The waiting callers of one event loop."""

    def __init__(self, http: Http) -> None:
        self._http = http
        self._futures: dict[str, set[asyncio.Future[Task]]] = {}
        self._count = 0
        self._reading = asyncio.Semaphore(READS_MAX)
        self._statuses = Batcher(self._read_status, self._read_statuses, IDS_MAX)
        self._task: asyncio.Task[None] | None = None

    async def wait(self, task_id: str, seconds: float | None) -> Task:
        """Returns the task when it has ended. Raises WaitTimeout after `seconds`."""
        if self._count >= WAITS_MAX:
            raise QueueFull(f"{WAITS_MAX} callers of this queue already wait: try again later")
        future: asyncio.Future[Task] = asyncio.get_running_loop().create_future()
        self._futures.setdefault(task_id, set()).add(future)
        self._count += 1
        try:
            async with asyncio.timeout(seconds):
                await self._look_first(task_id)
                return await future
        except TimeoutError:
            raise WaitTimeout.of_task(task_id, seconds or 0.0) from None
        finally:
            self._drop(task_id, future)

    def ended(self, task: Task) -> None:
        """Wakes the callers that wait for a task that has ended."""
        for future in self._futures.get(task.id, ()):
            if not future.done():
                future.set_result(task)

    async def close(self) -> None:
        """Ends the request that waits for events."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def _look_first(self, task_id: str) -> None:
        """Reads the task once, because it may have ended before the wait began. Callers that begin together
        share a request."""
        status = await self._statuses.put(task_id)
        if status is None:
            raise NotFound(f"task {task_id} does not exist: it may have been pruned")
        if status in ENDED:
            await self._look(task_id)

    async def _read_status(self, task_id: str) -> Status | None:
        return (await self._read_statuses([task_id]))[0]

    async def _read_statuses(self, ids: list[str]) -> list[Status | None]:
        query = {"q": f"id:{','.join(map(_quoted, ids))}", "limit": IDS_MAX}
        answer = await self._http.call("GET", path_of("tasks"), query=query)
        if self._task is None:
            # The position was read before the tasks: what ends later has its event after it.
            follow = self._follow(answer.position)
            self._task = asyncio.create_task(follow, name="holdfast-waiters")
        statuses = {item["id"]: Status(item["status"]) for item in answer.body["items"]}
        return [statuses.get(task_id) for task_id in ids]

    async def _read(self, task_id: str) -> Answer | None:
        try:
            async with self._reading:
                return await self._http.call("GET", path_of("tasks", task_id))
        except NotFound:
            return None

    async def _follow(self, position: str | None) -> None:
        """Reads events of ended tasks while callers wait."""
        while self._futures:
            try:
                position = await self._next_page(position)
            except HoldfastError as error:
                self._fail(error)
                break
        self._task = None

    async def _next_page(self, position: str | None) -> str:
        """Outlasts a gateway that restarts. Raises an error that would come again."""
        patience = self._http.patience_seconds
        try:
            return await patiently(self._http, lambda: self._page(position), patience)
        except FeedReset as reset:
            await patiently(self._http, self._look_all, patience)
            return reset.head

    def _fail(self, error: HoldfastError) -> None:
        """Ends all waits: no answer will come."""
        for futures in self._futures.values():
            for future in futures:
                if not future.done():
                    future.set_exception(error)

    async def _page(self, position: str | None) -> str:
        query = {
            "after": position,
            "kinds": KINDS,
            "limit": EVENTS_PAGE,
            "wait_seconds": POLL_SECONDS,
        }
        body = (await self._http.call("GET", path_of("events"), query=query)).body
        ended = [item["task_id"] for item in body["items"] if item["task_id"] in self._futures]
        await asyncio.gather(*map(self._look, ended))
        return str(body["next"])

    async def _look_all(self) -> None:
        await asyncio.gather(*map(self._look, list(self._futures)))

    async def _look(self, task_id: str) -> None:
        answer = await self._read(task_id)
        if answer is not None and (task := views.read_task(answer.body)).status in ENDED:
            self.ended(task)

    def _drop(self, task_id: str, future: asyncio.Future[Task]) -> None:
        futures = self._futures[task_id]
        futures.remove(future)
        if future.done() and not future.cancelled():
            future.exception()  # The caller may have ended with another error.
        self._count -= 1
        if not futures:
            del self._futures[task_id]


def _quoted(task_id: str) -> str:
    return codec.dumps(task_id) if not task_id.replace("-", "").isalnum() else task_id
