"""Looking: statistics, lists, events and reasons. Nothing here changes a task."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import chain, repeat
from typing import Final

import msgspec

from holdfast.bus.port import FEED, Mode
from holdfast.core.check import PAGE_MAX, check_choice, check_flag, check_name, check_page, shown
from holdfast.core.event import Event, Position
from holdfast.core.task import Priority, Status, Task
from holdfast.engine import meters
from holdfast.engine.loop import OUTAGE_SECONDS
from holdfast.errors import FeedReset, InvalidInput, NotFound, StoreUnavailable
from holdfast.metrics import Meter
from holdfast.queue.backend import Backend
from holdfast.queue.define import Define
from holdfast.queue.nodes import live_nodes
from holdfast.queue.session import Session
from holdfast.queue.unsubscribe import Unsubscribe
from holdfast.queue.why import Why, explain
from holdfast.store.store import Reset

EVENTS_PAGE: Final = 500
POLL_SECONDS: Final = 1.0
DRAIN_SECONDS: Final = 5.0
"""For event handlers to get what was committed before a stop."""
UNWIND_SECONDS: Final = 2.0
"""For event handlers that a stop has cancelled."""
log = logging.getLogger("holdfast.events")

EventHandler = Callable[[Event], Awaitable[None] | None]


class Stats(msgspec.Struct, frozen=True):
    """How a queue is doing. Counts are exact as of the call and cost no scan."""

    pending: int
    processing: int
    workers: int
    dead_letter_count: int
    blocked: int
    paused: int
    completed: int
    aborted: int
    pending_by_priority: dict[str, int]
    by_queue: dict[str, dict[str, int]]
    by_type: dict[str, dict[str, int]]
    registered_handlers: list[str]
    available_workers: int
    hints: Mode
    nodes: int
    fenced: int
    leases_lost: int
    restarts: int
    deaf_handlers: int
    """Handlers in this process that ignore their cancellation; each keeps a worker."""
    abandoned_threads: int
    """Plain handlers in this process that outlived their attempts; with 16, it takes no others."""
    troubles: int
    """Errors that a part of this process's engine did not foresee and went on after."""


class Observe(Define):
    """The part of a queue that answers questions."""

    _measures: meters.Measures | None = None

    async def get_stats(self) -> Stats:
        """Counts of tasks and workers, exact as of now."""
        backend = await self._open()
        rows = await backend.store.counters()
        nodes = await live_nodes(backend)
        by_status = dict.fromkeys(Status, 0)
        by_priority = {priority.name.lower(): 0 for priority in Priority}
        by_queue: dict[str, dict[str, int]] = {}
        by_type: dict[str, dict[str, int]] = {}
        for queue, kind, priority, status, n in rows:
            of_type = by_type.setdefault(kind, {})
            of_type[status] = of_type.get(status, 0) + n
            by_status[Status(status)] += n
            counts = by_queue.setdefault(queue, {})
            counts[status] = counts.get(status, 0) + n
            if status == Status.QUEUED:
                by_priority[Priority(priority).name.lower()] += n
        engine = self._engine
        if self._meter is not None:
            await self._measure(backend, self._meter, rows)
        return Stats(
            pending=by_status[Status.QUEUED],
            processing=by_status[Status.RUNNING],
            workers=engine.pool.workers if engine else 0,
            dead_letter_count=by_status[Status.FAILED],
            blocked=by_status[Status.BLOCKED],
            paused=by_status[Status.PAUSED] + by_status[Status.STUCK],
            completed=by_status[Status.COMPLETED],
            aborted=by_status[Status.ABORTED],
            pending_by_priority=by_priority,
            by_queue=by_queue,
            by_type=by_type,
            registered_handlers=list(self._handlers.types()),
            available_workers=engine.pool.workers - engine.pool.busy if engine else 0,
            hints=backend.bus.mode(),
            nodes=len(nodes),
            fenced=engine.completer.fenced if engine else 0,
            leases_lost=engine.heartbeat.lost if engine else 0,
            restarts=engine.supervisor.restarts if engine else 0,
            deaf_handlers=engine.pool.deaf if engine else 0,
            abandoned_threads=engine.executor.abandoned_threads if engine else 0,
            troubles=engine.troubles if engine else 0,
        )

    async def _measure(
        self, backend: Backend, meter: Meter, rows: list[tuple[str, str, int, str, int]]
    ) -> None:
        """Fresh gauges, with workers in this process or without."""
        if self._engine is not None:
            self._engine.measure(rows)
        else:
            self._measures = self._measures or meters.Measures(meter)
            self._measures.counted(rows)
        meter.gauge(meters.FEED_HEAD, (await backend.store.head()).offset)

    async def get_queue_size(self, queue: str | None = None) -> int:
        """Tasks that wait or run."""
        _name("queue", queue)
        backend = await self._open()
        counted = (Status.QUEUED, Status.RUNNING)
        rows = await backend.store.counters()
        return sum(n for q, _, _, status, n in rows if status in counted and queue in (None, q))

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
        backend = await self._open()
        return await backend.store.find(
            status=None if status is None else check_choice("status", status, Status),
            type=_name("type", type),
            queue=_name("queue", queue),
            prefix=_name("prefix", prefix),
            after=_name("after", after),
            limit=check_page(limit),
        )

    async def get_dependents(self, task_id: str, *, limit: int = PAGE_MAX) -> list[str]:
        """The tasks that depend on this one."""
        backend = await self._with_task(task_id)
        return await backend.store.reads.dependents(task_id, check_page(limit))

    async def history(self, task_id: str) -> list[Event]:
        """What happened to a task, oldest first, as far as events are kept."""
        backend = await self._with_task(task_id)
        return await backend.store.history(task_id)

    async def why(self, task_id: str) -> Why:
        """Why a task is not running."""
        check_name("task_id", task_id)
        return await explain(await self._open(), task_id)

    async def _with_task(self, task_id: str) -> Backend:
        """The store, if it has the task."""
        if await self.get_task(task_id) is None:
            raise NotFound(f"task {task_id} does not exist: it may have been pruned")
        return await self._open()

    # -- events ------------------------------------------------------------------------------------

    async def position(self) -> Position:
        """The end of the feed."""
        backend = await self._open()
        return await backend.store.head()

    async def events(
        self, after: Position | str | None = None, *, follow: bool = True
    ) -> AsyncIterator[Event]:
        """Everything after a position, in order, nothing twice; then what comes. None starts at the
        oldest that is kept. Raises FeedReset when the position is no longer covered."""
        position = _position(after)
        check_flag("follow", follow)
        session = await self._session()
        backend = session.store_and_bus
        stir = asyncio.Event()
        unsubscribe = backend.bus.subscribe(lambda _: stir.set(), FEED)
        try:
            while True:
                stir.clear()
                page = await _page(backend, position, patient=follow)
                for event in page:
                    position = event.position
                    yield event
                if not page:
                    if not follow or _reached(session, position):
                        return
                    await backend.clock.wait(stir, POLL_SECONDS)
        finally:
            unsubscribe()

    def on_event(self, handler: EventHandler) -> Unsubscribe:
        """Calls back for every event from now on, in order. Calling the answer ends it, at once or, with
        `await`, once the handler has ended. A slow handler falls behind without holding up any other:
        it reads the feed at its own pace."""
        if not callable(handler):
            raise InvalidInput(f"an event handler is a function, not {shown(handler)}")
        session = self._here
        started = asyncio.Event()
        session.subscribing.add(started)
        task = asyncio.create_task(self._call_back(handler, started), name="holdfast-on-event")
        session.subscriptions.add(task)
        task.add_done_callback(session.subscriptions.discard)
        return Unsubscribe(task)

    async def _call_back(self, handler: EventHandler, started: asyncio.Event) -> None:
        position = await self._subscribe(started)
        while True:
            try:
                async for event in self.events(position):
                    await _hand_over(event, handler)
                return
            except FeedReset as error:
                # What it missed is gone; what is still there, or comes, it shall get.
                position = Position.parse(error.oldest if error.reason == "pruned" else error.head)
                log.error("an event handler missed events and goes on: %s", error)  # noqa: TRY400 - no bug of ours

    async def _subscribe(self, started: asyncio.Event) -> Position:
        """From where on a subscriber listens: the end of the feed. A store that is away is waited for."""
        pauses = chain(OUTAGE_SECONDS, repeat(OUTAGE_SECONDS[-1]))
        subscribing = self._here.subscribing
        try:
            while True:
                try:
                    backend = await self._connect()
                    return await backend.store.head()
                except StoreUnavailable:
                    subscribing.discard(started)
                    started.set()
                    await asyncio.sleep(next(pauses))
        finally:
            subscribing.discard(started)
            started.set()

    async def _before_close(self, session: Session, backend: Backend) -> None:
        """Subscribers get everything that was committed before the stop."""
        try:
            session.draining = await backend.store.head()
        except StoreUnavailable:
            session.draining = Position("", 0)
        backend.bus.publish(FEED)
        tasks = list(session.subscriptions)
        if tasks:
            await asyncio.wait(tasks, timeout=DRAIN_SECONDS)
        for task in tasks:
            task.cancel()
        if tasks:
            ended, left = await asyncio.wait(tasks, timeout=UNWIND_SECONDS)
            await asyncio.gather(*ended, return_exceptions=True)
            if left:
                log.error("left behind: %d event handlers ignore their cancellation", len(left))


def _reached(session: Session, position: Position | None) -> bool:
    """Whether a stopping queue has nothing more for this reader."""
    return session.draining is not None and (
        position is None or position.offset >= session.draining.offset
    )


async def _hand_over(event: Event, handler: EventHandler) -> None:
    """A handler that fails misses this event only."""
    try:
        answer = handler(event)
        if inspect.isawaitable(answer):
            await answer
    except Exception:
        log.exception("an event handler failed on %s; the next event follows", event.kind)


async def _page(backend: Backend, position: Position | None, *, patient: bool) -> list[Event]:
    """The next events. A patient reader waits for a store that is away."""
    try:
        page = await backend.store.events(position, EVENTS_PAGE)
    except StoreUnavailable:
        if patient:
            return []
        raise
    if isinstance(page, Reset):
        raise FeedReset(page.reason, str(page.oldest), str(page.head))
    return page.events


def _position(after: object) -> Position | None:
    """Where to begin reading."""
    if after is None or isinstance(after, Position):
        return after
    try:
        return Position.parse(check_name("after", after))
    except ValueError as error:
        raise InvalidInput(str(error)) from None


def _name(field: str, given: str | None) -> str | None:
    return None if given is None else check_name(field, given)
