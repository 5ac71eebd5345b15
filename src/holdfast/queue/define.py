"""Defining tasks: the decorator, and handlers by name."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Generic, ParamSpec, TypeVar, Unpack, overload

from holdfast.engine.handlers import Handler, bind_payload, for_arguments, for_task
from holdfast.queue.handle import TaskHandle
from holdfast.queue.produce import Produce, check_options
from holdfast.queue.schedules import Schedules
from holdfast.queue.types import TypeOptions, schedule_of, type_config

P = ParamSpec("P")
R = TypeVar("R")


class TaskFunction(Generic[P, R]):
    """A function that is also a task: call it, or `enqueue` it."""

    def __init__(self, queue: Produce, handler: Handler, function: Callable[P, R]) -> None:
        self.function = function
        self.type = handler.type
        self._queue = queue
        self._handler = handler
        self._options: dict[str, Any] = {}
        functools.update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)

    def options(self, **options: Any) -> TaskFunction[P, R]:
        """The same task, enqueued with other options (those of `TaskQueue.enqueue`)."""
        check_options(options, allowed=("id", "tx"))
        other = TaskFunction(self._queue, self._handler, self.function)
        other._options = {**self._options, **options}
        return other

    async def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> TaskHandle:
        """Hands in a task that will call the function with these arguments."""
        payload = bind_payload(self._handler, args, kwargs)
        return await self._queue.enqueue(self.type, payload, **self._options)

    def request(self, *args: P.args, **kwargs: P.kwargs) -> dict[str, Any]:
        """The same as an item for `enqueue_many`."""
        payload = bind_payload(self._handler, args, kwargs)
        return {"type": self.type, "payload": payload, **self._options}


class Define(Schedules):
    """The part of a queue that knows handlers."""

    # Typed by what it returns; not by its parameters, since the context is none of the payload.
    @overload
    def task(self, function: Callable[..., R], /) -> TaskFunction[..., R]: ...

    @overload
    def task(
        self, function: None = None, /, *, name: str | None = None, **options: Unpack[TypeOptions]
    ) -> Callable[[Callable[..., R]], TaskFunction[..., R]]: ...

    def task(
        self,
        function: Callable[..., R] | None = None,
        /,
        *,
        name: str | None = None,
        **options: Unpack[TypeOptions],
    ) -> Any:
        """Makes a function a task. Its name is the type, its arguments are the payload. The options are
        those of `TypeOptions`, as for `register_handler`."""
        config = type_config(options)

        def define(function: Callable[..., R]) -> TaskFunction[..., R]:
            task_type = name if name is not None else str(getattr(function, "__name__", ""))
            handler = for_arguments(task_type, function, config, options.get("isolation"))
            self._define(handler, options)
            return TaskFunction(self, handler, function)

        return define if function is None else define(function)

    def register_handler(
        self, type: str, handler: Callable[..., Any], **options: Unpack[TypeOptions]
    ) -> None:
        """Binds a function to a type; it gets the task, and the context if it takes two arguments."""
        config = type_config(options)
        self._define(for_task(type, handler, config, options.get("isolation")), options)

    def _define(self, handler: Handler, options: TypeOptions) -> None:
        """Takes the whole definition in, or raises and takes in nothing."""
        cron, timezone = options.get("cron"), options.get("timezone", "UTC")
        schedule = None if cron is None else schedule_of(handler, cron, timezone)
        self._handlers.add(handler)
        self._schedules = [each for each in self._schedules if each.name != handler.type]
        if schedule is not None:
            self._schedules.append(schedule)
        self._tell_engine(lambda engine: engine.announce_soon())
