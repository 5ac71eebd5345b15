"""The return value of an enqueue: the id of the task, the pressure of the queue, and access to the result."""

from __future__ import annotations

from typing import Any, Final, Generic, Protocol, Self, TypeVar

from holdfast.core.check import shown
from holdfast.core.pressure import Pressure
from holdfast.core.seconds import Seconds, in_seconds
from holdfast.core.task import Status, Task
from holdfast.engine.declared import Declared, Misfit
from holdfast.errors import InvalidInput, TaskFailed
from holdfast.store.store import Inserted

_HIDDEN: Final = frozenset(
    ["declared", "inserted", "source", *(name for name in dir(str) if not name.startswith("_"))]
)
R_co = TypeVar("R_co", covariant=True)


class Source(Protocol):
    """The calls that a handle needs."""

    async def get(self, task_id: str) -> Task:
        """Returns the task. Raises NotFound if it does not exist."""
        ...

    async def wait(self, task_id: str, timeout: float | None = None) -> Task:
        """Returns the task when it has ended."""
        ...

    async def cancel_task(self, task_id: str, *, actor: str, reason: str) -> Task:
        """Aborts the task and cancels its running handler."""
        ...


def no_result(task: Task) -> str:
    """The message for a task that ended without a result."""
    verb = "was" if task.status is Status.ABORTED else "has"
    return f"task {task.id} ({task.type}) {verb} {task.status}: {task.why_ended}"


def read_result(task: Task, declared: Declared | None) -> Any:
    """The result as its handler declares it."""
    if declared is None:
        return task.result
    try:
        return declared.read(task.result)
    except Misfit as misfit:
        raise InvalidInput(
            f"the result of task {task.id} ({task.type}) is {shown(task.result)}, which is not what its "
            f"handler declares: {misfit}"
        ) from None


class TaskHandle(str, Generic[R_co]):
    """The id of a task, as a `str` with methods that read the task, wait for it and cancel it. `R_co` is the
    type of the result."""

    __slots__ = ("declared", "inserted", "pressure", "source")
    source: Source
    """For the engine."""
    inserted: Inserted
    """For the engine."""
    declared: Declared | None
    """The type of the result, if it needs a conversion. For the engine."""
    pressure: Pressure
    """Whether the queue was under pressure when it accepted the task."""

    def __new__(
        cls,
        inserted: Inserted,
        pressure: Pressure,
        source: Source,
        declared: Declared | None = None,
    ) -> Self:
        self = super().__new__(cls, inserted.task_id)
        self.inserted = inserted
        self.source = source
        self.pressure = pressure
        self.declared = declared
        return self

    @property
    def created(self) -> bool:
        """False if the task existed already, from an earlier request with the same key or id."""
        return self.inserted.created

    @property
    def status(self) -> Status:
        """The status when the enqueue returned. Use `get` for the current one."""
        return self.inserted.status

    @property
    def id(self) -> str:
        """The id as a plain `str`."""
        return str(self)

    async def get(self) -> Task:
        """Returns the task in its current state."""
        return await self.source.get(self.id)

    async def wait(self, timeout: Seconds | None = None) -> Task:
        """Waits until the task has ended, with or without success, and returns it. Raises WaitTimeout after
        `timeout` seconds."""
        return await self.source.wait(self.id, in_seconds(timeout))

    async def result(self, timeout: Seconds | None = None) -> R_co:
        """Waits until the task has completed, and returns the value of its handler. Raises TaskFailed if the
        task failed or was aborted, and WaitTimeout after `timeout` seconds."""
        task = await self.wait(timeout)
        if task.status is not Status.COMPLETED:
            raise TaskFailed(no_result(task), task)
        result: R_co = read_result(task, self.declared)
        return result

    async def cancel(self, *, actor: str = "api", reason: str = "") -> Task:
        """Aborts the task and cancels its running handler. Raises IllegalTransition if it has completed or
        was aborted."""
        return await self.source.cancel_task(self.id, actor=actor, reason=reason)

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        """Another process gets the id: a handle belongs to its queue."""
        return str, (self.id,)

    def __dir__(self) -> list[str]:
        """The names of a handle, for completion: those of `str` would hide them."""
        return sorted(name for name in super().__dir__() if name not in _HIDDEN)

    def __repr__(self) -> str:
        return f"TaskHandle({self.id!r}, {self.pressure.value})"
