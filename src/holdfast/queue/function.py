"""A function that is also a task type."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from typing import Any, Generic, ParamSpec, TypeAlias, TypeVar, Unpack

from holdfast.core.keywords import EnqueueKeywords, TaskRequest
from holdfast.core.task import Task
from holdfast.engine.blocking_handle import BlockingTaskHandle
from holdfast.engine.handle import TaskHandle, read_result
from holdfast.engine.handlers import Handler
from holdfast.engine.parameters import bind_payload
from holdfast.queue.blocking_calls import BlockingCalls
from holdfast.queue.requests import check_options

P = ParamSpec("P")
Q = ParamSpec("Q")
R_co = TypeVar("R_co", covariant=True)
S_co = TypeVar("S_co", covariant=True)
Enqueue: TypeAlias = Callable[..., Awaitable[TaskHandle[Any]]]
"""`TaskQueue.enqueue` of the queue that the function was defined on."""


class TaskFunction(Generic[P, R_co]):
    """A function that is also a task type: call it directly, or `enqueue` it. `P` are its parameters without
    the context, `R_co` is the type of the result."""

    def __init__(
        self,
        enqueue: Enqueue,
        calls: BlockingCalls,
        handler: Handler,
        function: Callable[..., Any],
    ) -> None:
        self.function = function
        self._calls = calls
        self.type = handler.type
        self._enqueue = enqueue
        self._handler = handler
        assert handler.parameters is not None, "the handler takes the task"
        self._parameters = handler.parameters
        self._options: dict[str, Any] = {}
        functools.update_wrapper(self, function)

    def __repr__(self) -> str:
        return f"{TaskFunction.__name__}({self.type!r})"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the function itself, here and now."""
        return self.function(*args, **kwargs)

    def options(self, **options: Unpack[EnqueueKeywords]) -> TaskFunction[P, R_co]:
        """Returns a copy that enqueues with these options, which are those of `TaskQueue.enqueue`."""
        check_options(options, allowed=("id", "tx"))
        other: TaskFunction[P, R_co] = TaskFunction(
            self._enqueue, self._calls, self._handler, self.function
        )
        other._options = {**self._options, **options}
        return other

    async def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> TaskHandle[R_co]:
        """Enqueues a task that calls the function with these arguments."""
        payload = bind_payload(self._parameters, args, kwargs)
        return await self._enqueue(self.type, payload, **self._options)

    # Python shows this name when the call was not awaited: "coroutine '…' was never awaited".
    enqueue.__qualname__ = "TaskFunction.enqueue (without an event loop: enqueue_sync)"

    def enqueue_sync(self, *args: P.args, **kwargs: P.kwargs) -> BlockingTaskHandle[R_co]:
        """As `enqueue`, for code without an event loop: it blocks until the task is durable."""
        self._calls.refuse_tx(self._options.get("tx"))
        return self._calls.handle(lambda: self.enqueue(*args, **kwargs))

    def request(self, *args: P.args, **kwargs: P.kwargs) -> TaskRequest[R_co]:
        """Returns such a task as an item for `TaskQueue.enqueue_many`."""
        payload = self._parameters.arguments.written(bind_payload(self._parameters, args, kwargs))
        request = TaskRequest[R_co]({"type": self.type, "payload": payload, **self._options})
        request.declared = self._handler.result
        return request

    def result_of(self, task: Task) -> R_co:
        """Returns the result of a completed task of this type, e.g. of `ctx.parents()`, as the function
        declares it."""
        result: R_co = read_result(task, self._handler.result)
        return result


class DefinedTask(TaskFunction[P, R_co], Generic[P, R_co, Q, S_co]):
    """What `@queue.task` returns. A direct call takes the parameters `Q` of the function and returns `S_co`,
    e.g. a coroutine."""

    def __call__(self, *args: Q.args, **kwargs: Q.kwargs) -> S_co:
        """Calls the function itself, here and now."""
        answer: S_co = self.function(*args, **kwargs)
        return answer
