"""The decorator `@queue.task`, and the function that it returns."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from typing import Any, Generic, ParamSpec, TypeAlias, TypeVar, Unpack, overload

from holdfast.engine.handlers import Handler, for_arguments
from holdfast.engine.parameters import bind_payload
from holdfast.queue.define import TypeOptions, type_config
from holdfast.queue.enqueue import check_options
from holdfast.queue.handle import TaskHandle

P = ParamSpec("P")
R = TypeVar("R")
Enqueue: TypeAlias = Callable[..., Awaitable[TaskHandle]]
"""`TaskQueue.enqueue` of the queue that the function was defined on."""
Define: TypeAlias = Callable[[Handler, TypeOptions], None]
"""Adds a handler to a queue."""


class TaskFunction(Generic[P, R]):
    """A function that is also a task type: call it directly, or `enqueue` it."""

    def __init__(self, enqueue: Enqueue, handler: Handler, function: Callable[P, R]) -> None:
        self.function = function
        self.type = handler.type
        self._enqueue = enqueue
        self._handler = handler
        assert handler.parameters is not None, "the handler takes the task"
        self._parameters = handler.parameters
        self._options: dict[str, Any] = {}
        functools.update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)

    def options(self, **options: Any) -> TaskFunction[P, R]:
        """Returns a copy that enqueues with these options, which are those of `TaskQueue.enqueue`."""
        check_options(options, allowed=("id", "tx"))
        other = TaskFunction(self._enqueue, self._handler, self.function)
        other._options = {**self._options, **options}
        return other

    async def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> TaskHandle:
        """Enqueues a task that calls the function with these arguments."""
        payload = bind_payload(self._parameters, args, kwargs)
        return await self._enqueue(self.type, payload, **self._options)

    def request(self, *args: P.args, **kwargs: P.kwargs) -> dict[str, Any]:
        """Returns such a task as an item for `TaskQueue.enqueue_many`."""
        payload = bind_payload(self._parameters, args, kwargs)
        return {"type": self.type, "payload": payload, **self._options}


class TaskDecorator:
    """Makes functions task types of one queue. Bad options raise before a function is decorated."""

    def __init__(self, define: Define, enqueue: Enqueue) -> None:
        self._define = define
        self._enqueue = enqueue

    # Parameters are not typed: a context parameter is not part of the payload.
    @overload
    def __call__(self, function: Callable[..., R], /) -> TaskFunction[..., R]: ...

    @overload
    def __call__(
        self, function: None = None, /, *, name: str | None = None, **options: Unpack[TypeOptions]
    ) -> Callable[[Callable[..., R]], TaskFunction[..., R]]: ...

    def __call__(
        self,
        function: Callable[..., R] | None = None,
        /,
        *,
        name: str | None = None,
        **options: Unpack[TypeOptions],
    ) -> Any:
        config = type_config(options)

        def decorate(function: Callable[..., R]) -> TaskFunction[..., R]:
            task_type = name if name is not None else str(getattr(function, "__name__", ""))
            handler = for_arguments(task_type, function, config, options.get("isolation"))
            self._define(handler, options)
            return TaskFunction(self._enqueue, handler, function)

        return decorate if function is None else decorate(function)
