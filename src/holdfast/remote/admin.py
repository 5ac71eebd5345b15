"""Queues, dead letters, schedules, nodes, figures and the feed through a gateway.

The same calls as their parts in `queue`. What the API does not have raises NotSupported.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Any, Final

from msgspec import UNSET

from holdfast.bus.port import Mode
from holdfast.client.http import Http, path_of
from holdfast.core.event import Event, Position
from holdfast.core.schedule import Schedule
from holdfast.core.task import Task
from holdfast.engine.handlers import Handlers
from holdfast.errors import InvalidInput, NotSupported
from holdfast.queue import views
from holdfast.queue.by import By
from holdfast.queue.dead_letters import DeadFilter, DeadGroup
from holdfast.queue.feed import EVENTS_PAGE, EventHandler, call_handler
from holdfast.queue.nodes import Node
from holdfast.queue.queues import QueueView
from holdfast.queue.stats import Stats
from holdfast.queue.subscriptions import Unsubscribe
from holdfast.remote.engine import RemoteEngine
from holdfast.remote.tasks import RemoteTasks

WAIT_SECONDS: Final = 20.0


class RemoteQueues:
    """See `queue.queues.Queues`."""

    def __init__(self, http: Http) -> None:
        self._http = http

    async def list(self) -> list[QueueView]:
        body = (await self._http.call("GET", path_of("queues"))).body
        return [views.read_queue(item) for item in body["items"]]

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


class RemoteSchedules:
    """See `queue.schedules.Schedules`."""

    def __init__(self, http: Http) -> None:
        self._http = http

    async def list(self) -> list[Schedule]:
        body = (await self._http.call("GET", path_of("schedules"))).body
        return [views.read_schedule(item) for item in body["items"]]

    async def put(self, name: str, by: By, **fields: Any) -> None:
        given = {key: value for key, value in fields.items() if value is not None}
        body = {**given, "reason": by.reason}
        await self._http.call("PUT", path_of("schedules", name), body)

    async def remove(self, name: str, by: By) -> None:
        await self._http.call("DELETE", path_of("schedules", name))

    async def pause(self, name: str, by: By) -> Schedule:
        return await self._change(name, "pause", by)

    async def resume(self, name: str, by: By) -> Schedule:
        return await self._change(name, "resume", by)

    async def _change(self, name: str, verb: str, by: By) -> Schedule:
        path = path_of("schedules", name, verb)
        return views.read_schedule(
            (await self._http.call("POST", path, {"reason": by.reason})).body
        )


class RemoteDeadLetters:
    """See `queue.dead_letters.DeadLetters`."""

    def __init__(self, http: Http, tasks: RemoteTasks) -> None:
        self._http = http
        self._tasks = tasks

    async def page(self, which: DeadFilter, *, limit: int = 100, offset: int = 0) -> list[Task]:
        ids = await self._ids(which, limit + offset)
        found = [await self._tasks.look_up(task_id) for task_id in ids[offset:]]
        return [task for task in found if task is not None]

    async def groups(self, *, limit: int = 50) -> list[DeadGroup]:
        query = {"limit": limit}
        body = (await self._http.call("GET", path_of("dead-letters", "groups"), query=query)).body
        return [views.read_dead_group(item) for item in body["items"]]

    async def replay(
        self, task_id: str, by: By, *, payload: object = UNSET, delay: float = 0.0
    ) -> Task:
        if delay:
            raise NotSupported(
                "a gateway replays at once: leave delay out, or run `holdfast dlq replay` at the database"
            )
        if payload is not UNSET:
            await self._tasks.edit(task_id, payload, by)
        return await self._tasks.operate("replay", task_id, by)

    async def replay_all(
        self,
        which: DeadFilter,
        by: By,
        *,
        rate: float | None = None,
        limit: int | None = None,
        dry_run: bool = False,
    ) -> int:
        if rate is not None:
            raise NotSupported(
                "a gateway replays at once: leave rate out, or use `holdfast dlq replay --rate` there"
            )
        return await self._change_all("replay", which, by, limit=limit, dry_run=dry_run)

    async def discard_all(
        self, which: DeadFilter, by: By, *, limit: int | None = None, dry_run: bool = False
    ) -> int:
        return await self._change_all("discard", which, by, limit=limit, dry_run=dry_run)

    async def _change_all(
        self, action: str, which: DeadFilter, by: By, *, limit: int | None, dry_run: bool
    ) -> int:
        ids = await self._ids(which, limit)
        done = 0
        for start in range(0, len(ids), 1_000):
            body = {
                "action": action,
                "ids": ids[start : start + 1_000],
                "reason": by.reason,
                "dry_run": dry_run,
            }
            answer = (await self._http.call("POST", path_of("operations"), body)).body
            done += answer["eligible"] if dry_run else answer["done"]
        return done

    async def _ids(self, which: DeadFilter, limit: int | None) -> list[str]:
        terms = {"type": which.type, "queue": which.queue, "fingerprint": which.fingerprint}
        q = " ".join(f"{name}:{value}" for name, value in terms.items() if value is not None)
        query: dict[str, object] = {"q": q, "limit": 1_000}
        ids: list[str] = []
        while True:
            body = (await self._http.call("GET", path_of("dead-letters"), query=query)).body
            ids += [item["id"] for item in body["items"]]
            if body["next"] is None or (limit is not None and len(ids) >= limit):
                return ids[:limit]
            query = {**query, "after": body["next"]}


class RemoteNodes:
    """See `queue.nodes.Nodes`."""

    def __init__(self, http: Http) -> None:
        self._http = http

    async def list(self, *, live: bool = True) -> list[Node]:
        body = (await self._http.call("GET", path_of("nodes"), query={"live": live})).body
        return [views.read_node(item) for item in body["items"]]


class RemoteStatistics:
    """See `queue.stats.Statistics`. Numbers of tasks are the store's, those of workers this process's."""

    def __init__(
        self, http: Http, handlers: Handlers, engine: Callable[[], RemoteEngine | None]
    ) -> None:
        self._http = http
        self._handlers = handlers
        self._engine = engine

    async def get(self) -> Stats:
        body = (await self._http.call("GET", path_of("stats"))).body
        engine = self._engine()
        own = {
            "workers": engine.pool.workers if engine else 0,
            "registered_handlers": list(self._handlers.types()),
            "available_workers": engine.pool.workers - engine.pool.busy if engine else 0,
            "hints": Mode(pushing=True, why="the gateway answers when there is work"),
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


class RemoteFeed:
    """See `queue.feed.Feed`."""

    def __init__(self, http: Http, tasks: Callable[[], set[asyncio.Task[None]]]) -> None:
        self._http = http
        self._tasks = tasks

    async def position(self) -> Position:
        """The end of the feed."""
        answer = await self._http.call("GET", path_of("events"), query={"limit": 1})
        return Position.parse(answer.body["head"])

    async def events(
        self, after: Position | str | None = None, *, follow: bool = True
    ) -> AsyncGenerator[Event, None]:
        """Yields all events after a position, and with `follow` waits for new ones."""
        position = None if after is None else str(after)
        while True:
            query = {
                "after": position,
                "limit": EVENTS_PAGE,
                "wait_seconds": WAIT_SECONDS if follow else 0.0,
            }
            body = (await self._http.call("GET", path_of("events"), query=query)).body
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
