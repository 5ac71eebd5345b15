"""The public class of the queue: a facade of short methods over the parts (`parts.py`)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Self, TypeVar, Unpack, overload

from msgspec import UNSET, UnsetType

from holdfast.core.keywords import DependsOn, PriorityName, Tags, TaskRequest
from holdfast.core.schedule import Schedule, spec_of
from holdfast.core.seconds import Seconds, in_seconds
from holdfast.core.task import Priority, Task
from holdfast.core.unique import Unique
from holdfast.engine.around import BlockingMiddleware, Middleware
from holdfast.engine.group_handle import GroupHandle
from holdfast.engine.handle import TaskHandle
from holdfast.engine.handlers import for_task
from holdfast.engine.worker_hooks import StartHook, StopHook
from holdfast.errors import EngineFailed
from holdfast.queue.blocking_calls import BlockingCalls
from holdfast.queue.by import By
from holdfast.queue.decorator import TaskDecorator
from holdfast.queue.define import Definitions, TypeOptions, type_config
from holdfast.queue.operator_calls import OperatorCalls
from holdfast.queue.parts import Parts
from holdfast.queue.session import Resources
from holdfast.queue.settings import Settings
from holdfast.queue.types import EnqueueOptions

M = TypeVar("M", bound=Middleware)
B = TypeVar("B", bound=BlockingMiddleware)
R = TypeVar("R")
Start = TypeVar("Start", bound=StartHook)
Stop = TypeVar("Stop", bound=StopHook)


class Queue(OperatorCalls):
    """Defines, enqueues, runs, inspects and changes tasks."""

    def __init__(self, make_parts: Callable[[Definitions], Parts]) -> None:
        self.definitions = Definitions()
        self.parts = make_parts(self.definitions)
        """For the command line, the gateways, the simulator and tests."""
        self.blocking_calls = BlockingCalls(self._close)
        """For `sync` and for tasks of this queue: calls of code without an event loop."""

    async def __aenter__(self) -> Self:
        await self.parts.runtime.enter()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.parts.runtime.leave()

    async def _close(self) -> None:
        await self.parts.runtime.close()

    # -- open, start, stop -------------------------------------------------------------------------

    @property
    def settings(self) -> Settings:
        """The settings in force."""
        return self.parts.settings.current

    def is_running(self) -> bool:
        """Whether workers run in this process."""
        return self.parts.sessions.is_running()

    async def open(self) -> Resources:
        """Connects to the store without starting workers. It must be called explicitly after a `stop`."""
        return await self.parts.runtime.open()

    @asynccontextmanager
    async def producer(self) -> AsyncIterator[Self]:
        """Keeps the connection of this event loop to the store open inside the block, without workers: for
        web processes. The last block to end closes it. Blocks may be nested, and repeated any number of
        times."""
        await self.parts.runtime.enter_producer()
        try:
            yield self
        finally:
            await self.parts.runtime.leave_producer()

    async def start(self, **settings: Any) -> None:
        """Starts workers in this process. Settings given here replace those of the constructor. Raises
        Conflict if workers already run with other settings."""
        await self.parts.runtime.start(settings)

    async def stop(self) -> None:
        """Stops the workers of this event loop and closes its connection to the store. New enqueues are
        refused, running tasks get `shutdown_timeout` seconds to end, and the rest return to the queue. A
        second call waits for the first one. Other event loops are not affected."""
        await self.parts.runtime.stop()

    def hurry(self) -> None:
        """Cancels the running tasks that `stop` waits for. They return to the queue and lose no attempt."""
        self.parts.runtime.hurry()

    async def wait_failed(self) -> EngineFailed:
        """Waits until the engine has failed permanently, and returns the error. A process that only runs
        workers should exit then."""
        return await self.parts.runtime.wait_failed()

    # -- enqueue, schedule, define ----------------------------------------------------------------

    async def enqueue(
        self,
        type: str,
        payload: object = None,
        *,
        id: str | None = None,
        queue: str | None = None,
        priority: Priority | PriorityName | None = None,
        max_attempts: int | None = None,
        metadata: dict[str, object] | None = None,
        tags: Tags = (),
        depends_on: DependsOn = (),
        delay: Seconds = 0.0,
        run_at: datetime | None = None,
        timeout: Seconds | UnsetType | None = UNSET,
        progress_timeout: Seconds | UnsetType | None = UNSET,
        key: str | None = None,
        idempotency_key: str | None = None,
        project: str | None = None,
        unique: Unique | UnsetType | None = UNSET,
        tx: object = None,
    ) -> TaskHandle[Any]:
        """Enqueues a task, which is durable when this returns. It starts after `delay` (seconds or a
        timedelta) or at `run_at` (a datetime with a time zone), not before. Key limits count by `key`.
        Lists find it by its `tags`, beside those of the type. `timeout=None` disables the timeout. `unique`
        replaces the window of the type. `tx` is your own connection: the task exists only if its transaction
        commits."""
        options = EnqueueOptions(
            queue=queue,
            priority=priority,
            max_attempts=max_attempts,
            metadata=metadata,
            tags=tags,
            depends_on=depends_on,
            delay=delay,
            run_at=run_at,
            timeout=timeout,
            progress_timeout=progress_timeout,
            key=key,
            idempotency_key=idempotency_key,
            project=project,
            unique=unique,
        )
        return await self.parts.producer.enqueue(type, payload, id, options, tx)

    async def enqueue_many(
        self, tasks: Iterable[Mapping[str, Any]], *, tx: object = None
    ) -> list[TaskHandle[Any]]:
        """Enqueues many tasks, or none if one is refused. Each is a mapping of arguments of `enqueue`."""
        return await self.parts.producer.enqueue_many(tasks, tx)

    @overload
    async def enqueue_group(
        self, tasks: Iterable[TaskRequest[R]], *, id: str | None = None, tx: object = None
    ) -> GroupHandle[R]: ...
    @overload
    async def enqueue_group(
        self, tasks: Iterable[Mapping[str, Any]], *, id: str | None = None, tx: object = None
    ) -> GroupHandle[Any]: ...
    async def enqueue_group(
        self, tasks: Iterable[Mapping[str, Any]], *, id: str | None = None, tx: object = None
    ) -> GroupHandle[Any]:
        """Enqueues many tasks as a group, or none if one is refused. With an `id` the call may be repeated:
        it answers with the same group."""
        return await self.parts.producer.enqueue_group(tasks, id, tx)

    async def get_group(self, group_id: str) -> GroupHandle[Any]:
        """Returns the task group of this id, from any process. Raises NotFound if it does not exist."""
        return await self.parts.groups.get(group_id)

    async def get_task(self, task_id: str) -> Task | None:
        """Returns the task, or None if it does not exist."""
        return await self.parts.tasks.look_up(task_id)

    async def wait_task(self, task_id: str, timeout: Seconds | None = None) -> Task:
        """Returns the task when it has ended, even in failure. Raises WaitTimeout after `timeout` seconds."""
        return await self.parts.tasks.wait(task_id, in_seconds(timeout))

    async def schedule(
        self,
        name: str,
        spec: str | timedelta,
        type: str,
        payload: object = None,
        *,
        timezone: str = "UTC",
        queue: str | None = None,
        priority: Priority | PriorityName | None = None,
        actor: str = "api",
        reason: str = "",
    ) -> None:
        """Adds or changes a schedule, with a spec such as '*/5 * * * *', '@daily', '@every 5m' or
        timedelta(minutes=5). It fires while any node of this store runs. Raises Conflict if a task defined
        with `cron` has this name."""
        put = partial(self.parts.schedules.put, timezone=timezone, queue=queue, priority=priority)
        await put(name, By(actor, reason), spec=spec_of(spec), type=type, payload=payload)

    async def unschedule(self, name: str, *, actor: str = "api", reason: str = "") -> None:
        """Removes a schedule, but not the tasks it has enqueued. Raises NotFound if it does not exist. A
        schedule defined with `cron` returns when a node with that code starts: pause it instead."""
        await self.parts.schedules.remove(name, By(actor, reason))

    async def pause_schedule(self, name: str, *, actor: str = "api", reason: str = "") -> Schedule:
        """Pauses a schedule until it is resumed. The pause survives restarts of the nodes."""
        return await self.parts.schedules.pause(name, By(actor, reason))

    async def resume_schedule(self, name: str, *, actor: str = "api", reason: str = "") -> Schedule:
        """Resumes a paused schedule. It fires at its next regular time."""
        return await self.parts.schedules.resume(name, By(actor, reason))

    async def run_schedule(self, name: str, *, actor: str = "api", reason: str = "") -> Task:
        """Enqueues the task of a schedule now, also of a paused one, and returns it. The schedule stays as it
        is."""
        return await self.parts.schedules.run(name, By(actor, reason))

    async def get_schedules(self) -> list[Schedule]:
        """Returns all schedules of the store, by name."""
        return await self.parts.schedules.list()

    @property
    def task(self) -> TaskDecorator:
        """Decorator that makes a function a task type: `@queue.task` or `@queue.task(name=None, **options)`.
        `name` is the type, by default the name of the function. The arguments of the function are the
        payload. For the options see `TypeOptions`."""
        return TaskDecorator(self.parts.runtime.define, self.enqueue, self.blocking_calls)

    @overload
    def middleware(self, function: M) -> M: ...
    @overload
    def middleware(self, function: B) -> B: ...
    def middleware(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Puts a function `(ctx, call_next)` around all handlers of this queue; as a decorator or a call. It
        returns what `call_next()` returns, or another result. An async one runs in the event loop of the
        worker and awaits `call_next()`. A plain one runs in the thread or the process of plain handlers. The
        first is the outermost."""
        self.definitions.handlers.add_middleware(function)
        return function

    def on_start(self, hook: Start) -> Start:
        """Runs a function at each start of workers in this process, before they take tasks. What it returns
        is in `ctx.state` by its class. It may be async, and it may yield its object once: what follows the
        `yield` runs after the last handler. An error ends the start."""
        self.definitions.hooks.add_start(hook)
        return hook

    def on_stop(self, hook: Stop) -> Stop:
        """Runs a function with the worker's state after the last handler has ended. It may be async."""
        self.definitions.hooks.add_stop(hook)
        return hook

    def register_handler(
        self, type: str, handler: Callable[..., Any], **options: Unpack[TypeOptions]
    ) -> None:
        """Registers a handler for a type. It is called with the task, and with the context if it takes two
        arguments. For the options see `TypeOptions`."""
        made = for_task(type, handler, type_config(options), options.get("isolation"))
        self.parts.runtime.define(made, options)
