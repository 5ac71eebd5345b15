"""The feed: every event in order, read by position or passed to event handlers.

Promises: each event is delivered in order and exactly once per reader. A position that is no longer covered
raises FeedReset. A slow reader does not delay other readers. A stop first delivers the committed events to
the event handlers.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from functools import partial
from itertools import chain, repeat
from typing import Final

from holdfast.bus.port import FEED
from holdfast.core.check import check_flag, check_name, shown
from holdfast.core.event import Event, Position
from holdfast.engine.loop import OUTAGE_SECONDS
from holdfast.errors import FeedReset, InvalidInput, StoreUnavailable
from holdfast.queue.session import Resources, Session, Sessions
from holdfast.queue.subscriptions import Unsubscribe
from holdfast.store.store import Reset, Store

EVENTS_PAGE: Final = 500
POLL_SECONDS: Final = 1.0
DRAIN_SECONDS: Final = 5.0
"""The time that a stop gives event handlers to receive committed events."""
UNWIND_SECONDS: Final = 2.0
"""The time that a stop gives cancelled event handlers to return."""
log = logging.getLogger("holdfast.events")

EventHandler = Callable[[Event], Awaitable[None] | None]


class Feed:
    """Reads events, and calls event handlers."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    async def position(self) -> Position:
        """The end of the feed."""
        resources = await self._sessions.open()
        return await resources.store.feed.head()

    async def is_covered(self, position: Position) -> bool:
        """Whether `events` can start after this position."""
        resources = await self._sessions.open()
        return not isinstance(await resources.store.feed.read(position, 1), Reset)

    async def new_epoch(self) -> Position:
        """Makes every reader start over, e.g. after a restore from a backup. Returns the new end of the
        feed."""
        resources = await self._sessions.open()
        return await resources.store.feed.new_epoch()

    async def events(
        self, after: Position | str | None = None, *, follow: bool = True
    ) -> AsyncGenerator[Event, None]:
        """Yields all events after a position, and with `follow` waits for new ones. None starts at the oldest
        stored event. Raises FeedReset if the position is no longer covered."""
        position = _position(after)
        check_flag("follow", follow)
        session = await self._sessions.opened()
        resources, subscriptions = session.open_resources, session.subscriptions
        stir = asyncio.Event()
        unsubscribe = resources.bus.subscribe(lambda _: stir.set(), FEED)
        page: list[Event] = []
        try:
            while True:
                if not page:
                    stir.clear()
                    page = await _page(resources.store, position, patient=follow)
                for event in page:
                    position = event.position
                    yield event
                if page:
                    page = []
                    continue
                if not follow or subscriptions.is_drained_at(position):
                    return
                page = await subscriptions.looks.wait(
                    position,
                    stir,
                    partial(_page, resources.store, position, patient=True),
                    clock=resources.clock,
                    seconds=POLL_SECONDS,
                    is_over=partial(subscriptions.is_drained_at, position),
                )
        finally:
            unsubscribe()

    def on_event(self, handler: EventHandler) -> Unsubscribe:
        """Calls the handler for every event from now on, in order, until the returned object is called."""
        if not callable(handler):
            raise InvalidInput(f"an event handler must be a function, not {shown(handler)}")
        subscriptions = self._sessions.here.subscriptions
        started = asyncio.Event()
        subscriptions.starting.add(started)
        task = asyncio.create_task(self._call_back(handler, started), name="holdfast-on-event")
        subscriptions.tasks.add(task)
        task.add_done_callback(subscriptions.tasks.discard)
        task.add_done_callback(lambda ended: subscriptions.reached.pop(ended, None))
        return Unsubscribe(task)

    async def drain(self, session: Session, resources: Resources) -> None:
        """Delivers all committed events to the event handlers, before a stop closes the store."""
        try:
            session.subscriptions.draining = await resources.store.feed.head()
        except StoreUnavailable:
            session.subscriptions.draining = Position("", 0)
        resources.bus.publish(FEED)
        tasks = list(session.subscriptions.tasks)
        if tasks:
            await asyncio.wait(tasks, timeout=DRAIN_SECONDS)
        for task in tasks:
            task.cancel()
        if tasks:
            ended, left = await asyncio.wait(tasks, timeout=UNWIND_SECONDS)
            await asyncio.gather(*ended, return_exceptions=True)
            if left:
                log.error("abandoned %d event handlers that ignore their cancellation", len(left))

    async def _call_back(self, handler: EventHandler, started: asyncio.Event) -> None:
        position = await self._first_position(started)
        reached, me = self._sessions.here.subscriptions.reached, asyncio.current_task()
        reached[me] = position.offset
        while True:
            try:
                async for event in self.events(position):
                    await call_handler(event, handler)
                    reached[me] = event.position.offset
                return
            except FeedReset as error:
                # The missed events are gone. The handler continues with those that are still stored.
                position = Position.parse(error.oldest if error.reason == "pruned" else error.head)
                log.error("an event handler missed events and continues: %s", error)  # noqa: TRY400

    async def _first_position(self, started: asyncio.Event) -> Position:
        """The end of the feed, where a subscription starts. Waits while the store is unavailable."""
        pauses = chain(OUTAGE_SECONDS, repeat(OUTAGE_SECONDS[-1]))
        starting = self._sessions.here.subscriptions.starting
        try:
            while True:
                try:
                    resources = await self._sessions.connect()
                    return await resources.store.feed.head()
                except StoreUnavailable:
                    starting.discard(started)
                    started.set()
                    await asyncio.sleep(next(pauses))
        finally:
            starting.discard(started)
            started.set()


async def call_handler(event: Event, handler: EventHandler) -> None:
    """Calls the handler. If it fails, it misses this event only."""
    try:
        answer = handler(event)
        if inspect.isawaitable(answer):
            await answer
    except Exception:
        log.exception("an event handler failed on %s and continues with the next event", event.kind)


async def _page(store: Store, position: Position | None, *, patient: bool) -> list[Event]:
    """Reads the next events. `patient`: an unavailable store gives an empty page instead of an error."""
    try:
        page = await store.feed.read(position, EVENTS_PAGE)
    except StoreUnavailable:
        if patient:
            return []
        raise
    if isinstance(page, Reset):
        raise FeedReset(page.reason, str(page.oldest), str(page.head))
    return page.events


def _position(after: object) -> Position | None:
    """Parses the position to read from."""
    if after is None or isinstance(after, Position):
        return after
    try:
        return Position.parse(check_name("after", after))
    except ValueError as error:
        raise InvalidInput(str(error)) from None
