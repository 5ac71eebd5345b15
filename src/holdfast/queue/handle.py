"""What an enqueue returns: the task's id, how it was taken, and its result when it comes."""

from __future__ import annotations

from typing import Protocol, Self

from holdfast.core.codec import Json
from holdfast.core.pressure import Pressure
from holdfast.core.task import Status, Task
from holdfast.errors import TaskFailed
from holdfast.store.store import Inserted


class Source(Protocol):
    """Where a handle asks about its task."""

    async def get(self, task_id: str) -> Task:
        """NotFound when there is none of that id."""
        ...

    async def wait(self, task_id: str, timeout: float | None = None) -> Task:
        """The task once it has ended."""
        ...


def no_result(task: Task) -> str:
    """A sentence about a task that ended without one."""
    verb = "was" if task.status is Status.ABORTED else "has"
    return f"task {task.id} ({task.type}) {verb} {task.status}: {task.why_ended}"


class TaskHandle(str):
    """The id of a task (it is text), with what can be asked about it."""

    __slots__ = ("_inserted", "_source", "pressure")
    _source: Source
    _inserted: Inserted
    pressure: Pressure
    """How the queue took it: accepted, or accepted under pressure."""

    def __new__(cls, inserted: Inserted, pressure: Pressure, source: Source) -> Self:
        self = super().__new__(cls, inserted.task_id)
        self._inserted = inserted
        self._source = source
        self.pressure = pressure
        return self

    @property
    def created(self) -> bool:
        """False when an earlier request with the same key had made it."""
        return self._inserted.created

    @property
    def status(self) -> Status:
        """As it was when the enqueue was answered."""
        return self._inserted.status

    @property
    def id(self) -> str:
        return str(self)

    async def get(self) -> Task:
        """The task as it is now."""
        return await self._source.get(self.id)

    async def wait(self, timeout: float | None = None) -> Task:
        """The task once it has ended, well or badly; WaitTimeout after `timeout` seconds."""
        return await self._source.wait(self.id, timeout)

    async def result(self, timeout: float | None = None) -> Json:
        """The handler's value once completed; TaskFailed when the task ends without one."""
        task = await self.wait(timeout)
        if task.status is not Status.COMPLETED:
            raise TaskFailed(no_result(task))
        return task.result

    def __repr__(self) -> str:
        return f"TaskHandle({self.id!r}, {self.pressure.value})"
