"""Tasks that a handler enqueues: `ctx.enqueue` in the event loop, in threads and in processes.

Promises: a handler enqueues into the store of its task, with the same checks as any producer, also while
its worker stops. A handle waits where the handler runs. Never: makes an enqueue part of the attempt. A second
attempt enqueues again, unless the task has an `idempotency_key` or the call is in `ctx.once`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple, NoReturn, ParamSpec, Protocol, TypeVar

from holdfast.core.check import shown
from holdfast.core.group import GroupProgress
from holdfast.core.keywords import TaskRequest
from holdfast.core.task import Task
from holdfast.engine.blocking_group_handle import BlockingGroupHandle
from holdfast.engine.blocking_handle import BlockingTaskHandle
from holdfast.engine.group_handle import GroupHandle, GroupSource
from holdfast.engine.handle import Source, TaskHandle
from holdfast.errors import InvalidInput, NotRunning

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)
R = TypeVar("R")
T = TypeVar("T")
Wait = Callable[[Callable[[], Awaitable[T]]], T]


class Requestable(Protocol[P, R_co]):
    """A task type: what `@queue.task` returns."""

    def request(self, *args: P.args, **kwargs: P.kwargs) -> TaskRequest[R_co]:
        """The task that calls the function with these arguments."""
        ...


class FollowUps(NamedTuple):
    """How the handlers of an engine enqueue tasks, and read them."""

    enqueue: Callable[[Mapping[str, Any]], Awaitable[TaskHandle[Any]]]
    source: Source


class _NoSource:
    async def get(self, task_id: str) -> NoReturn:
        raise NotRunning("this engine has no queue to read tasks from")

    async def wait(self, task_id: str, timeout: float | None = None) -> NoReturn:
        raise NotRunning("this engine has no queue to read tasks from")

    async def cancel_task(self, task_id: str, *, actor: str, reason: str) -> NoReturn:
        raise NotRunning("this engine has no queue to cancel tasks of")


async def _no_queue(_: Mapping[str, Any]) -> NoReturn:
    raise NotRunning("this engine has no queue to enqueue into")


NO_FOLLOW_UPS = FollowUps(_no_queue, _NoSource())
"""For an engine without a queue, e.g. in a test."""


def request_of(task: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> TaskRequest[Any]:
    """The request of `ctx.enqueue`, from a task function or the name of a type."""
    if isinstance(task, str):
        if len(args) > 1 or (args and "payload" in kwargs):
            raise InvalidInput("ctx.enqueue with the name of a type takes one payload")
        payload = {"payload": args[0]} if args else {}
        return TaskRequest({"type": task, **payload, **kwargs})
    request = getattr(task, "request", None)
    if not callable(request):
        raise InvalidInput(
            f"{shown(task)} is not a task type: give a function that was decorated with @queue.task, or the "
            "name of a type"
        )
    made: TaskRequest[Any] = request(*args, **kwargs)
    return made


class BlockingReads:
    """Reads and cancels tasks for callers that block. `wait` runs an awaitable elsewhere and waits for it."""

    def __init__(
        self, wait: Callable[[Callable[[], Awaitable[Task]]], Task], source: Source
    ) -> None:
        self._wait = wait
        self.source = source

    def get(self, task_id: str) -> Task:
        return self._wait(lambda: self.source.get(task_id))

    def wait(self, task_id: str, timeout: float | None = None) -> Task:
        return self._wait(lambda: self.source.wait(task_id, timeout))

    def cancel_task(self, task_id: str, *, actor: str, reason: str) -> Task:
        return self._wait(lambda: self.source.cancel_task(task_id, actor=actor, reason=reason))


def blocking(
    handle: TaskHandle[R], wait: Callable[[Callable[[], Awaitable[Task]]], Task]
) -> BlockingTaskHandle[R]:
    """The handle for callers that block."""
    reads = BlockingReads(wait, handle.source)
    return BlockingTaskHandle(handle.inserted, handle.pressure, reads, handle.declared)


class AnyWait(Protocol):
    """Runs an awaitable elsewhere and waits for it."""

    def __call__(self, make: Callable[[], Awaitable[T]], /) -> T: ...


class BlockingGroups:
    """The calls of a group's handle for callers that block."""

    def __init__(self, wait: AnyWait, source: GroupSource) -> None:
        self._wait = wait
        self._source = source

    def progress(self, group_id: str) -> GroupProgress:
        return self._wait(lambda: self._source.progress(group_id))

    def wait(self, group_id: str, timeout: float | None = None) -> GroupProgress:
        return self._wait(lambda: self._source.wait(group_id, timeout))

    def tasks(self, group_id: str) -> list[Task]:
        return self._wait(lambda: self._source.tasks(group_id))

    def cancel_rest(self, group_id: str, *, actor: str, reason: str) -> int:
        return self._wait(lambda: self._source.cancel_rest(group_id, actor=actor, reason=reason))


def blocking_group(handle: GroupHandle[R], wait: AnyWait) -> BlockingGroupHandle[R]:
    """The handle of a group for callers that block."""
    source = BlockingGroups(wait, handle.source)
    return BlockingGroupHandle(
        handle.id,
        handle.task_ids,
        source,
        handle.declared,
        pressure=handle.pressure,
        inserted=handle.inserted,
    )
