"""Defining tasks: the decorator, and handlers by name."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Generic, ParamSpec, TypeVar, overload

from holdfast.core import limit as limits, priority as priorities
from holdfast.core.limit import Rule
from holdfast.core.schedule import Schedule, next_fire
from holdfast.core.submit import check_name, encode_payload
from holdfast.core.task import Priority
from holdfast.engine.handlers import Handler, TypeConfig, bind_payload, for_arguments, for_task
from holdfast.errors import BadConfig
from holdfast.queue.handle import TaskHandle
from holdfast.queue.produce import Produce
from holdfast.queue.schedules import Schedules
from holdfast.queue.settings import check_number

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
        self,
        *,
        name: str | None = None,
        queue: str = "default",
        priority: Priority | str | int = Priority.NORMAL,
        max_attempts: int | None = None,
        timeout: float | None = None,
        retry_delay: float | None = None,
        max_retry_delay: float | None = None,
        max_deaths: int | None = None,
        rate: str | None = None,
        concurrency: int | None = None,
        key_rate: str | None = None,
        key_concurrency: int | None = None,
        burst: int = 1,
        isolation: str | None = None,
        cron: str | None = None,
        timezone: str = "UTC",
    ) -> Callable[[Callable[..., R]], TaskFunction[..., R]]: ...

    def task(
        self,
        function: Callable[..., R] | None = None,
        *,
        name: str | None = None,
        queue: str = "default",
        priority: Priority | str | int = Priority.NORMAL,
        max_attempts: int | None = None,
        timeout: float | None = None,
        retry_delay: float | None = None,
        max_retry_delay: float | None = None,
        max_deaths: int | None = None,
        rate: str | None = None,
        concurrency: int | None = None,
        key_rate: str | None = None,
        key_concurrency: int | None = None,
        burst: int = 1,
        isolation: str | None = None,
        cron: str | None = None,
        timezone: str = "UTC",
    ) -> Any:
        """Makes a function a task. Its name is the type, its arguments are the payload."""
        config = type_config(
            queue=queue,
            priority=priority,
            max_attempts=max_attempts,
            timeout=timeout,
            retry_delay=retry_delay,
            max_retry_delay=max_retry_delay,
            max_deaths=max_deaths,
            limit=rule(rate, concurrency, burst),
            key_limit=rule(key_rate, key_concurrency, burst),
        )

        def define(function: Callable[..., R]) -> TaskFunction[..., R]:
            task_type = name if name is not None else str(getattr(function, "__name__", ""))
            handler = for_arguments(task_type, function, config, isolation)
            self._handlers.add(handler)
            if cron is not None:
                self._schedules.append(_schedule(handler, cron, timezone))
            return TaskFunction(self, handler, function)

        return define if function is None else define(function)

    def register_handler(
        self,
        type: str,
        handler: Callable[..., Any],
        *,
        isolation: str | None = None,
        queue: str = "default",
        priority: Priority | str | int = Priority.NORMAL,
        max_attempts: int | None = None,
        timeout: float | None = None,
        rate: str | None = None,
        concurrency: int | None = None,
        key_rate: str | None = None,
        key_concurrency: int | None = None,
        burst: int = 1,
    ) -> None:
        """Binds a function to a type; it gets the task, and the context if it takes two arguments."""
        config = type_config(
            queue=queue,
            priority=priority,
            max_attempts=max_attempts,
            timeout=timeout,
            limit=rule(rate, concurrency, burst),
            key_limit=rule(key_rate, key_concurrency, burst),
        )
        self._handlers.add(for_task(type, handler, config, isolation))
        if self._engine is not None:
            self._engine.announce_soon()


def type_config(
    *,
    queue: str,
    priority: Priority | str | int,
    max_attempts: int | None = None,
    timeout: float | None = None,
    retry_delay: float | None = None,
    max_retry_delay: float | None = None,
    max_deaths: int | None = None,
    limit: Rule | None = None,
    key_limit: Rule | None = None,
) -> TypeConfig:
    """Checks what a task is defined with."""
    check_name("queue", queue)
    if max_attempts is not None and max_attempts < 1:
        raise BadConfig(f"max_attempts is {max_attempts}: it must be at least 1")
    if timeout is not None and not timeout > 0:
        raise BadConfig(f"timeout is {timeout!r}: give a positive number of seconds")
    for name, value, least in (
        *(("retry_delay", retry_delay, 0), ("max_retry_delay", max_retry_delay, 0)),
        ("max_deaths", max_deaths, 1),
    ):
        if value is not None:
            check_number(name, value, at_least=least)
    return TypeConfig(
        queue=queue,
        priority=priorities.parse(priority),
        max_attempts=max_attempts,
        timeout_seconds=timeout,
        retry_base_seconds=retry_delay,
        retry_cap_seconds=max_retry_delay,
        max_deaths=max_deaths,
        limit=limit,
        key_limit=key_limit,
    )


def rule(rate: str | None, concurrency: int | None, burst: int) -> Rule | None:
    """A limit from what people write: rate='100/m', concurrency=4."""
    if rate is None and concurrency is None:
        return None
    if concurrency is not None and concurrency < 1:
        raise BadConfig(f"concurrency is {concurrency}: it must be at least 1")
    if burst < 1:
        raise BadConfig(f"burst is {burst}: it must be at least 1")
    try:
        count, seconds = limits.parse_rate(rate) if rate is not None else (None, 1.0)
    except ValueError as error:
        raise BadConfig(str(error)) from None
    return Rule(max_running=concurrency, rate_count=count, rate_seconds=seconds, burst=burst)


def _schedule(handler: Handler, cron: str, timezone: str) -> Schedule:
    next_fire(cron, timezone, 0.0)
    config = handler.config
    return Schedule(
        handler.type,
        handler.type,
        config.queue,
        cron,
        timezone,
        encode_payload({}),
        int(config.priority),
        0.0,
    )
