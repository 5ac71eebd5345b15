"""The queue that a user holds: a facade of short methods over the parts (`parts.py`)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import aclosing
from typing import Any, Self, TypeVar, Unpack, overload

import msgspec
from msgspec import UNSET, UnsetType

from holdfast.core.check import PAGE_MAX
from holdfast.core.event import Event, Position
from holdfast.core.schedule import Schedule
from holdfast.core.task import Priority, Status, Task
from holdfast.engine.handlers import Handler, for_arguments, for_task
from holdfast.errors import EngineFailed
from holdfast.metrics import Meter
from holdfast.queue.by import By
from holdfast.queue.dead_letters import DeadFilter, DeadGroup
from holdfast.queue.define import Definitions, TypeOptions, type_config
from holdfast.queue.feed import EventHandler
from holdfast.queue.function import TaskFunction
from holdfast.queue.handle import TaskHandle
from holdfast.queue.nodes import Node
from holdfast.queue.parts import Parts
from holdfast.queue.queues import QueueView
from holdfast.queue.session import Backend
from holdfast.queue.settings import Settings
from holdfast.queue.stats import Stats
from holdfast.queue.subscriptions import Unsubscribe
from holdfast.queue.types import DependsOn
from holdfast.queue.why import Why

R = TypeVar("R")


class Queue:
    """Define tasks, enqueue them, run them, look at them, intervene."""

    def __init__(
        self, backend: Callable[[], Backend], settings: Settings, meter: Meter | None = None
    ) -> None:
        self.definitions = Definitions()
        self.parts = Parts(backend, settings, self.definitions, meter=meter)
        """For the other faces of Holdfast (command line, simulator, tests); users call the methods."""

    async def __aenter__(self) -> Self:
        await self.parts.runtime.enter()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.parts.runtime.leave()

    # -- open, start, stop -------------------------------------------------------------------------

    @property
    def settings(self) -> Settings:
        return self.parts.settings.current

    def is_running(self) -> bool:
        """Whether workers run in this process."""
        return self.parts.sessions.is_running()

    async def open(self) -> Backend:
        """Connects to the store without starting workers; done by itself when first needed. After a
        `stop` it has to be asked for."""
        return await self.parts.runtime.open()

    async def start(self, **settings: Any) -> None:
        """Runs workers in this process. Settings given here replace those of the constructor; Conflict when
        workers run already with others."""
        await self.parts.runtime.start(settings)

    async def stop(self) -> None:
        """Takes no new work, lets running tasks end, releases the rest, closes the store. A
        second call waits for the end of the first one. Other event loops are not affected."""
        await self.parts.runtime.stop()

    def hurry(self) -> None:
        """While `stop` waits for running tasks: cancels them and gives them back, unpunished."""
        self.parts.runtime.hurry()

    async def wait_failed(self) -> EngineFailed:
        """Until the engine has given up, if ever; a process that only runs workers ends then."""
        return await self.parts.runtime.wait_failed()

    # -- enqueue -----------------------------------------------------------------------------------

    async def enqueue(
        self,
        type: str,
        payload: object = None,
        *,
        id: str | None = None,
        queue: str | None = None,
        priority: Priority | str | int | None = None,
        max_attempts: int | None = None,
        metadata: dict[str, object] | None = None,
        depends_on: DependsOn = (),
        delay: float = 0.0,
        timeout: float | UnsetType | None = UNSET,
        key: str | None = None,
        idempotency_key: str | None = None,
        tx: object = None,
    ) -> TaskHandle:
        """Hands a task in; durable when this returns. `key` is what key limits count by; `timeout=None`
        is no timeout; `tx` is a connection of your own whose open transaction shall carry the enqueue."""
        options = (
            queue,
            priority,
            max_attempts,
            metadata,
            depends_on,
            delay,
            timeout,
            key,
            idempotency_key,
        )
        return await self.parts.producer.enqueue(type, payload, id, options, tx)

    async def enqueue_many(
        self, tasks: Iterable[Mapping[str, Any]], *, tx: object = None
    ) -> list[TaskHandle]:
        """Many at once: each a mapping of the arguments of `enqueue`; all of them or none."""
        return await self.parts.producer.enqueue_many(tasks, tx)

    async def get_task(self, task_id: str) -> Task | None:
        """The task, or None when there is none of that id."""
        return await self.parts.tasks.look_up(task_id)

    async def wait_task(self, task_id: str, timeout: float | None = None) -> Task:
        """The task once it has ended, well or badly; WaitTimeout after `timeout` seconds."""
        return await self.parts.tasks.wait(task_id, timeout)

    # -- schedules ---------------------------------------------------------------------------------

    async def schedule(
        self,
        name: str,
        spec: str,
        type: str,
        payload: object = None,
        *,
        timezone: str = "UTC",
        queue: str | None = None,
        priority: Priority | str | int | None = None,
        actor: str = "api",
    ) -> None:
        """Adds or changes a schedule ('*/5 * * * *', or '@every 30'); it fires while a node of this store
        runs. Conflict when the name belongs to a task that is defined with `cron`."""
        await self.parts.schedules.put(
            name,
            By(actor),
            spec=spec,
            type=type,
            payload=payload,
            timezone=timezone,
            queue=queue,
            priority=priority,
        )

    async def unschedule(self, name: str, *, actor: str = "api", reason: str = "") -> None:
        """Removes a schedule; tasks that it made stay. NotFound when there is none. One that belongs to
        the code comes back with the next start of a node that has it: pause it instead."""
        await self.parts.schedules.remove(name, By(actor, reason))

    async def pause_schedule(self, name: str, *, actor: str = "api", reason: str = "") -> Schedule:
        """Nothing is fired until it is resumed, also after a restart of the code that has it."""
        return await self.parts.schedules.pause(name, By(actor, reason))

    async def resume_schedule(self, name: str, *, actor: str = "api") -> Schedule:
        """Fires again, from its next time on."""
        return await self.parts.schedules.resume(name, By(actor))

    async def get_schedules(self) -> list[Schedule]:
        """All schedules of the store, by name."""
        return await self.parts.schedules.list()

    # -- handlers ----------------------------------------------------------------------------------

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
            return TaskFunction(self.enqueue, handler, function)

        return define if function is None else define(function)

    def register_handler(
        self, type: str, handler: Callable[..., Any], **options: Unpack[TypeOptions]
    ) -> None:
        """Binds a function to a type; it gets the task, and the context if it takes two arguments."""
        config = type_config(options)
        self._define(for_task(type, handler, config, options.get("isolation")), options)

    def _define(self, handler: Handler, options: TypeOptions) -> None:
        self.definitions.add(handler, options)
        self.parts.sessions.call_engine(lambda engine: engine.announce_soon())

    # -- look --------------------------------------------------------------------------------------

    async def get_stats(self) -> Stats:
        """Counts of tasks and workers, exact as of now."""
        return await self.parts.stats.get()

    async def get_queue_size(self, queue: str | None = None) -> int:
        """Tasks that wait or run."""
        return await self.parts.queues.size(queue)

    async def find_tasks(
        self,
        *,
        status: Status | str | None = None,
        type: str | None = None,
        queue: str | None = None,
        prefix: str | None = None,
        after: str | None = None,
        limit: int = 50,
    ) -> list[Task]:
        """Newest first, a page at a time; `after` is the last id of the page before."""
        return await self.parts.tasks.find(
            status=status, type=type, queue=queue, prefix=prefix, after=after, limit=limit
        )

    async def get_dependents(self, task_id: str, *, limit: int = PAGE_MAX) -> list[str]:
        """The tasks that depend on this one."""
        return await self.parts.tasks.dependents(task_id, limit=limit)

    async def history(self, task_id: str) -> list[Event]:
        """What happened to a task, oldest first, as far as events are kept."""
        return await self.parts.tasks.history(task_id)

    async def why(self, task_id: str) -> Why:
        """Why a task is not running."""
        return await self.parts.tasks.why(task_id)

    async def position(self) -> Position:
        """The end of the feed."""
        return await self.parts.feed.position()

    async def events(
        self, after: Position | str | None = None, *, follow: bool = True
    ) -> AsyncIterator[Event]:
        """Everything after a position, in order, nothing twice; then what comes. None starts at the
        oldest that is kept. Raises FeedReset when the position is no longer covered."""
        async with aclosing(self.parts.feed.events(after, follow=follow)) as events:
            async for event in events:
                yield event

    def on_event(self, handler: EventHandler) -> Unsubscribe:
        """Calls back for every event from now on, in order. Calling the answer ends it, at once or, with
        `await`, once the handler has ended. A slow handler falls behind without holding up any other:
        it reads the feed at its own pace."""
        return self.parts.feed.on_event(handler)

    async def get_queues(self) -> list[QueueView]:
        """Every queue that has tasks, types or a pause, by name."""
        return await self.parts.queues.list()

    async def get_nodes(self, *, live: bool = True) -> list[Node]:
        """The processes that run tasks; with `live` false also those not heard of lately."""
        return await self.parts.nodes.list(live=live)

    # -- intervene ---------------------------------------------------------------------------------

    async def cancel(self, task_id: str, *, actor: str = "api", reason: str = "") -> Task:
        """Aborts a task, whatever it is doing; a running handler is cancelled. IllegalTransition when it
        has ended, NotFound when there is none."""
        return await self.parts.tasks.cancel(task_id, By(actor, reason))

    async def pause_task(self, task_id: str, *, actor: str = "api", reason: str = "") -> Task:
        """Stops a running task until it is resumed; no attempt is spent."""
        return await self.parts.tasks.pause(task_id, By(actor, reason))

    async def resume_task(self, task_id: str, *, actor: str = "api") -> Task:
        """Lets a paused task go on, from the queue."""
        return await self.parts.tasks.resume(task_id, By(actor))

    async def edit_task(
        self, task_id: str, payload: object, *, merge: bool = False, actor: str = "api"
    ) -> Task:
        """Gives a waiting or dead task another payload: this one, or with `merge` the one it has with these
        fields changed. The event keeps what was replaced."""
        return await self.parts.tasks.edit(task_id, payload, By(actor), merge=merge)

    async def pause_queue(
        self, name: str = "default", *, actor: str = "api", reason: str = ""
    ) -> None:
        """Nothing of this queue is started anywhere until it is resumed; what runs goes on."""
        await self.parts.queues.pause(name, By(actor, reason))

    async def resume_queue(self, name: str = "default", *, actor: str = "api") -> None:
        """Lets a paused queue go on."""
        await self.parts.queues.resume(name, By(actor))

    async def scale_workers(self, count: int) -> int:
        """Adds workers to those that this process has, or takes some away (a busy one leaves when its task
        ends); the number that it comes to. Added workers stay until they are taken away again; taking away
        what was added restores min_workers and max_workers."""
        return await self.parts.runtime.scale_workers(count)

    # -- dead letters ------------------------------------------------------------------------------

    async def get_dead_tasks(
        self,
        *,
        limit: int = 100,
        offset: int = 0,
        type: str | None = None,
        queue: str | None = None,
        fingerprint: str | None = None,
    ) -> list[Task]:
        """The latest first."""
        which = DeadFilter(type, queue, fingerprint)
        return await self.parts.dead_letters.page(which, limit=limit, offset=offset)

    async def get_dead_groups(self, *, limit: int = 50) -> list[DeadGroup]:
        """By error fingerprint, the largest first."""
        return await self.parts.dead_letters.groups(limit=limit)

    async def replay_dead_task(
        self,
        task_id: str,
        *,
        payload: object = msgspec.UNSET,
        delay: float = 0.0,
        actor: str = "api",
    ) -> Task:
        """Gives a dead letter new attempts, with another payload if one is given; dependents that
        failed with it wait for it again. IllegalTransition when it is no dead letter, NotFound when
        there is no such task."""
        letters = self.parts.dead_letters
        return await letters.replay(task_id, By(actor), payload=payload, delay=delay)

    async def replay_dead(
        self,
        *,
        type: str | None = None,
        queue: str | None = None,
        fingerprint: str | None = None,
        rate: float | None = None,
        limit: int | None = None,
        dry_run: bool = False,
        actor: str = "api",
    ) -> int:
        """Replays all dead letters that match, at most `rate` a second; how many came back. The pace is
        kept in the store: each gets its own due time, so it survives a restart. What had failed with
        another task comes back with that one, and waits for it."""
        which = DeadFilter(type, queue, fingerprint)
        return await self.parts.dead_letters.replay_all(
            which, By(actor), rate=rate, limit=limit, dry_run=dry_run
        )

    async def discard_dead(
        self,
        *,
        type: str | None = None,
        queue: str | None = None,
        fingerprint: str | None = None,
        limit: int | None = None,
        dry_run: bool = False,
        actor: str = "api",
        reason: str = "discarded",
    ) -> int:
        """Ends all dead letters that match, for good; how many."""
        which = DeadFilter(type, queue, fingerprint)
        return await self.parts.dead_letters.discard_all(
            which, By(actor, reason), limit=limit, dry_run=dry_run
        )
