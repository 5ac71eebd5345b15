"""What an enqueue returns: the task's id, how it was taken, and its result when it comes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Self

from holdfast.core.codec import Json
from holdfast.core.pressure import Pressure
from holdfast.core.task import Status, Task
from holdfast.errors import NotFound, TaskFailed

Fetch = Callable[[str], Awaitable[Task | None]]
Wait = Callable[[str, float | None], Awaitable[Task]]


class TaskHandle(str):  # noqa: SLOT000 - few are alive at a time
    """The id of a task (it is text), with what can be asked about it."""

    _fetch: Fetch
    _wait: Wait
    created: bool
    """False when an earlier request with the same key had made it."""
    status: Status
    pressure: Pressure

    def __new__(
        cls,
        task_id: str,
        *,
        created: bool,
        status: Status,
        pressure: Pressure,
        fetch: Fetch,
        wait: Wait,
    ) -> Self:
        self = super().__new__(cls, task_id)
        self._fetch = fetch
        self._wait = wait
        self.created = created
        self.status = status
        self.pressure = pressure
        return self

    @property
    def id(self) -> str:
        return str(self)

    async def get(self) -> Task:
        """The task as it is now."""
        task = await self._fetch(self.id)
        if task is None:
            raise NotFound(f"task {self.id} does not exist: it may have been pruned")
        return task

    async def wait(self, timeout: float | None = None) -> Task:
        """The task once it has ended, well or badly; WaitTimeout after `timeout` seconds."""
        return await self._wait(self.id, timeout)

    async def result(self, timeout: float | None = None) -> Json:
        """The handler's value once completed; TaskFailed when the task ends without one."""
        task = await self.wait(timeout)
        if task.status is not Status.COMPLETED:
            why = task.error or task.status.value
            raise TaskFailed(f"task {self.id} ({task.type}) has {task.status}: {why}")
        return task.result

    def __repr__(self) -> str:
        return f"TaskHandle({self.id!r}, {self.pressure.value})"
