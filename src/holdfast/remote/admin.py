"""Queues, schedules, nodes, figures and the feed through a gateway.

The same calls as their parts in `queue`. What the API does not have raises NotSupported.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from holdfast.bus.port import Mode
from holdfast.client.calls import Calls, path_of
from holdfast.client.patience import patiently
from holdfast.core.event import Event, Position
from holdfast.core.schedule import Schedule
from holdfast.core.task import Task
from holdfast.engine.handlers import Handlers
from holdfast.errors import FeedReset, InvalidInput, NotSupported
from holdfast.queue import views
from holdfast.queue.by import By
from holdfast.queue.feed import EVENTS_PAGE, EventHandler, call_handler
from holdfast.queue.nodes import Node
from holdfast.queue.queues import QueueView
from holdfast.queue.stats import Stats
from holdfast.queue.subscriptions import Unsubscribe
from holdfast.store.rows import KeyWeight

if TYPE_CHECKING:
    from holdfast.client.http import Http
    from holdfast.remote.engine import RemoteEngine

WAIT_SECONDS: Final = 20.0


class RemoteQueues:
    """See `queue.queues.Queues`."""

    def __init__(self, http: Calls) -> None:
        self._http = http

    async def list(self) -> list[QueueView]:
        body = (await self._http.call("GET", path_of("queues"))).body
        return [views.read_queue(item) for item in body["items"]]

    async def get(self, name: str) -> QueueView:
        body = (await self._http.call("GET", path_of("queues", name))).body
        return views.read_queue(body)

    async def size(self, queue: str | None = None) -> int:
        """The number of queued and running tasks, of one queue or of all."""
        return sum(
            view.counts.get("queued", 0) + view.counts.get("running", 0)
            for view in await self.list()
            if queue is None or view.name == queue
        )

    async def pause(self, name: str, by: By) -> None:
        await self._http.call("POST", path_of("queues", name, "pause"), {"reason": by.reason})

    async def resume(self, name: str, by: By) -> None:
        await self._http.call("POST", path_of("queues", name, "resume"), {"reason": by.reason})


class RemoteWeights:
    """See `queue.weights.Weights`."""

    def __init__(self, http: Calls) -> None:
        self._http = http

    async def list(self, type: str, *, after: str = "", limit: int = 100) -> list[KeyWeight]:
        query = {"after": after or None, "limit": limit}
        body = (await self._http.call("GET", path_of("types", type, "weights"), query=query)).body
        return [views.read_key_weight(item) for item in body["items"]]

    async def set(self, type: str, key: str, weight: int, by: By) -> None:
        body = {"key": key, "weight": weight, "reason": by.reason}
        await self._http.call("PUT", path_of("types", type, "weights"), body)


class RemoteSchedules:
    """See `queue.schedules.Schedules`."""

    def __init__(self, http: Calls) -> None:
        self._http = http

    async def list(self) -> list[Schedule]:
        body = (await self._http.call("GET", path_of("schedules"))).body
        return [views.read_schedule(item) for item in body["items"]]

    async def get(self, name: str) -> Schedule:
        body = (await self._http.call("GET", path_of("schedules", name))).body
        return views.read_schedule(body)

    async def put(self, name: str, by: By, **fields: Any) -> None:
        given = {key: value for key, value in fields.items() if value is not None}
        body = {**given, "reason": by.reason}
        await self._http.call("PUT", path_of("schedules", name), body)

    async def remove(self, name: str, by: By) -> None:
        query = {"reason": by.reason}
        await self._http.call("DELETE", path_of("schedules", name), query=query)

    async def pause(self, name: str, by: By) -> Schedule:
        return await self._change(name, "pause", by)

    async def resume(self, name: str, by: By) -> Schedule:
        return await self._change(name, "resume", by)

    async def run(self, name: str, by: By) -> Task:
        path = path_of("schedules", name, "run")
        body = (await self._http.call("POST", path, {"reason": by.reason})).body
        return views.read_task(body["task"])

    async def _change(self, name: str, verb: str, by: By) -> Schedule:
        path = path_of("schedules", name, verb)
        return views.read_schedule(
            (await self._http.call("POST", path, {"reason": by.reason})).body
        )


class RemoteNodes:
    """See `queue.nodes.Nodes`."""

    def __init__(self, http: Calls) -> None:
        self._http = http

    async def list(self, *, live: bool = True) -> list[Node]:
        body = (await self._http.call("GET", path_of("nodes"), query={"live": live})).body
        return [views.read_node(item) for item in body["items"]]

    async def runners(self) -> Sequence[Node]:
        query = {"live": True, "agents": False}
        body = (await self._http.call("GET", path_of("nodes"), query=query)).body
        return [views.read_node(item) for item in body["items"]]


class RemoteStatistics:
    """See `queue.stats.Statistics`. Numbers of tasks are the store's, those of workers this process's."""

    def __init__(
        self, http: Calls, handlers: Handlers, engine: Callable[[], RemoteEngine | None]
    ) -> None:
        self._http = http
        self._handlers = handlers
        self._engine = engine

    async def measure(self) -> None:
        """Sets the gauges of this process. Those of the store are the gateway's."""
        if (engine := self._engine()) is not None:
            engine.measure()

    async def get(self) -> Stats:
        body = (await self._http.call("GET", path_of("stats"))).body
        engine = self._engine()
        own = {
            "workers": engine.pool.workers if engine else 0,
            "registered_handlers": list(self._handlers.types()),
            "available_workers": engine.pool.workers - engine.pool.busy if engine else 0,
            "hints": _hints(body.get("hints"), is_worker=engine is not None),
            "fenced": engine.completer.fenced if engine else 0,
            "leases_lost": engine.heartbeat.lost + engine.leases.ended if engine else 0,
            "restarts": engine.supervisor.restarts if engine else 0,
            "deaf_handlers": engine.runs.deaf if engine else 0,
            "abandoned_threads": engine.executor.abandoned_threads if engine else 0,
            "troubles": engine.troubles if engine else 0,
        }
        names = Stats.__struct_fields__
        nothing: dict[str, Any] = {name: {} if name in _TABLES else 0 for name in names}
        given = {name: body[name] for name in names if name in body}
        return Stats(**{**nothing, **given, **own})


_TABLES: Final = ("queued_by_priority", "by_queue", "by_type")


def _hints(given: Any, *, is_worker: bool) -> Mode:
    """How a worker of this process hears of work; without one, how those of the gateway do."""
    if is_worker or given is None:
        return Mode(pushing=True, why="the gateway answers when there is work")
    return Mode(**given)


class RemoteFeed:
    """See `queue.feed.Feed`."""

    def __init__(self, http: Http, tasks: Callable[[], set[asyncio.Task[None]]]) -> None:
        self._http = http
        self._tasks = tasks

    async def position(self) -> Position:
        """The end of the feed."""
        answer = await self._http.call("GET", path_of("events"), query={"limit": 1})
        return Position.parse(answer.body["head"])

    async def is_covered(self, position: Position) -> bool:
        """Whether `events` can start after this position."""
        query = {"after": str(position), "limit": 1}
        try:
            await self._http.call("GET", path_of("events"), query=query)
        except FeedReset:
            return False
        return True

    async def new_epoch(self) -> Position:
        raise NotSupported(
            "a gateway has no new epoch: run `holdfast db new-epoch` at the database"
        )

    async def events(
        self, after: Position | str | None = None, *, follow: bool = True
    ) -> AsyncGenerator[Event, None]:
        """Yields all events after a position, and with `follow` waits for new ones. Once a gateway has
        answered, the reading outlasts one that restarts."""
        position = None if after is None else str(after)
        patience: float | None = 0.0
        while True:
            query = {
                "after": position,
                "limit": EVENTS_PAGE,
                "wait_seconds": WAIT_SECONDS if follow else 0.0,
            }
            request = partial(self._http.call, "GET", path_of("events"), query=query)
            body = (await patiently(self._http, request, patience)).body
            patience = self._http.patience_seconds
            for item in body["items"]:
                yield views.read_event(item)
            is_at_end = str(body["next"]) == str(body["head"])
            position = body["next"]
            if not follow and (is_at_end or not body["items"]):
                return

    def on_event(self, handler: EventHandler) -> Unsubscribe:
        """Calls the handler for every event from now on, in order."""
        if not callable(handler):
            raise InvalidInput("an event handler must be a function")
        task = asyncio.create_task(self._call_back(handler), name="holdfast-on-event")
        self._tasks().add(task)
        task.add_done_callback(self._tasks().discard)
        return Unsubscribe(task)

    async def _call_back(self, handler: EventHandler) -> None:
        async for event in self.events(await self.position()):
            await call_handler(event, handler)
