"""The return value of the enqueue of a task group: its id, its tasks, and what is done with all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

from holdfast.core.group import GroupProgress
from holdfast.core.pressure import ACCEPTED, Pressure
from holdfast.core.seconds import Seconds, in_seconds
from holdfast.core.task import Status, Task
from holdfast.engine.declared import Declared
from holdfast.engine.handle import no_result, read_result
from holdfast.errors import NotFound, TaskFailed
from holdfast.store.store import Inserted

R_co = TypeVar("R_co", covariant=True)


class GroupSource(Protocol):
    """The calls that a handle of a group needs."""

    async def progress(self, group_id: str) -> GroupProgress:
        """Returns how far the group is. Raises NotFound if it does not exist."""
        ...

    async def wait(self, group_id: str, timeout: float | None = None) -> GroupProgress:
        """Returns the progress when all tasks have ended."""
        ...

    async def tasks(self, group_id: str) -> list[Task]:
        """Returns the tasks that exist, in their order."""
        ...

    async def cancel_rest(self, group_id: str, *, actor: str, reason: str) -> int:
        """Aborts the tasks that have not ended. Returns how many."""
        ...


class GroupHandle(Generic[R_co]):
    """A group of tasks that were enqueued together. `R_co` is the type of their results. Give it in
    `depends_on` for a task that starts when all of them have completed."""

    __slots__ = ("declared", "id", "inserted", "pressure", "source", "task_ids")

    def __init__(
        self,
        id: str,
        task_ids: tuple[str, ...],
        source: GroupSource,
        declared: Callable[[str], Declared | None],
        *,
        pressure: Pressure = ACCEPTED,
        inserted: Sequence[Inserted] = (),
    ) -> None:
        self.id = id
        """The id, with which any process finds the group again (`get_group`)."""
        self.task_ids = task_ids
        """The ids of the tasks, in the order of the enqueue."""
        self.source = source
        """For the engine."""
        self.declared = declared
        """For the engine: how the results of a type are read."""
        self.pressure = pressure
        """Whether a queue was under pressure when it accepted the tasks."""
        self.inserted = list(inserted)
        """For the engine: the answer to each task. Empty for a group that was found again."""

    async def progress(self) -> GroupProgress:
        """Returns how far the group is: its size, and its tasks by status."""
        return await self.source.progress(self.id)

    async def tasks(self) -> list[Task]:
        """Returns the tasks in their current state, in the order of the enqueue. Those that retention has
        removed are missing."""
        return await self.source.tasks(self.id)

    async def wait(self, timeout: Seconds | None = None) -> GroupProgress:
        """Waits until all tasks have ended, with or without success. Raises WaitTimeout after `timeout`
        seconds."""
        return await self.source.wait(self.id, in_seconds(timeout))

    async def results(self, timeout: Seconds | None = None) -> list[R_co]:
        """Waits until all tasks have ended, and returns their results in the order of the enqueue. Raises
        TaskFailed if one has failed or was aborted, NotFound if one was pruned, and WaitTimeout after
        `timeout` seconds."""
        await self.wait(timeout)
        found = {task.id: task for task in await self.tasks()}
        results: list[R_co] = []
        for task_id in self.task_ids:
            task = found.get(task_id)
            if task is None:
                raise NotFound(f"task {task_id} of group {self.id} does not exist: it was pruned")
            if task.status is not Status.COMPLETED:
                raise TaskFailed(no_result(task))
            results.append(read_result(task, self.declared(task.type)))
        return results

    async def cancel(self, *, actor: str = "api", reason: str = "") -> int:
        """Aborts the tasks that have not ended, and cancels their handlers. Returns how many."""
        return await self.source.cancel_rest(self.id, actor=actor, reason=reason)

    def __len__(self) -> int:
        """The number of tasks at the enqueue."""
        return len(self.task_ids)

    def __repr__(self) -> str:
        return f"GroupHandle({self.id!r}, {len(self.task_ids)} tasks)"
