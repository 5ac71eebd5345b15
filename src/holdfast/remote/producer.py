"""Enqueues tasks through a gateway.

Promises: an acknowledged enqueue is durable, with its event. Concurrent callers share a request. A request
whose answer was lost is repeated under its idempotency key, so it takes effect once.
Never: takes a caller's transaction: there is no database here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final

import msgspec
from msgspec import UNSET

from holdfast.client.calls import Calls, path_of
from holdfast.core.dependency import Edge
from holdfast.core.group import GROUP, check_group_id
from holdfast.core.pressure import Pressure
from holdfast.core.seconds import check_moment, in_seconds
from holdfast.core.submit import BATCH_MAX, encode_payload
from holdfast.core.tags import check_tags
from holdfast.core.task import DEFAULT_PROJECT, Priority, Status
from holdfast.engine.blocking_group_handle import BlockingGroupHandle
from holdfast.engine.group_handle import GroupHandle, GroupSource
from holdfast.engine.handle import Source, TaskHandle
from holdfast.engine.handlers import Handlers
from holdfast.engine.parameters import checked_payload
from holdfast.errors import BatchTooLarge, InvalidInput, NotSupported, QueueStopping
from holdfast.queue.batcher import Batcher
from holdfast.queue.requests import check_options, split_request
from holdfast.queue.settings import SettingsInForce
from holdfast.queue.types import EnqueueOptions, check_unique
from holdfast.store.store import Inserted
from holdfast.tracing import CURRENT

GROUP_MAX: Final = 500
NO_TX: Final = (
    "a queue behind a gateway has no database, so a task cannot be enqueued in your transaction (tx=): leave "
    "tx out and give an idempotency_key, or use a TaskQueue with the URL of the database"
)
Answered = tuple[Inserted, Pressure]


class RemoteProducer:
    """Enqueues one task or many."""

    def __init__(
        self,
        http: Calls,
        handlers: Handlers,
        settings: SettingsInForce,
        *,
        source: Source,
        groups: GroupSource,
        is_stopping: Callable[[], bool],
    ) -> None:
        self._groups = groups
        self._http = http
        self._handlers = handlers
        self._settings = settings
        self._source = source
        self._is_stopping = is_stopping
        self._registered: object = None
        self._batchers: dict[asyncio.AbstractEventLoop, Batcher[dict[str, Any], Answered]] = {}

    def _put(self, body: dict[str, Any]) -> Awaitable[Answered]:
        """Sends a task together with those of other callers in this event loop."""
        loop = asyncio.get_running_loop()
        batcher = self._batchers.get(loop)
        if batcher is None:
            kept = {one: each for one, each in self._batchers.items() if not one.is_closed()}
            batcher = Batcher(self._insert_one, self._insert_many, GROUP_MAX)
            self._batchers = {**kept, loop: batcher}
        return batcher.put(body)

    async def enqueue(
        self, type: str, payload: object, id: str | None, options: EnqueueOptions, tx: object
    ) -> TaskHandle[Any]:
        """Enqueues one task."""
        self._check(tx)
        return await self._enqueue(type, payload, id, options)

    async def _enqueue(
        self, type: str, payload: object, id: str | None, options: EnqueueOptions
    ) -> TaskHandle[Any]:
        await self._register()
        if (enqueuing := self._handlers.around.enqueuing) is None:
            inserted, pressure = await self._put(self._body(type, payload, id, options))
        else:
            with enqueuing(str(type), 1) as note:
                inserted, pressure = await self._put(self._body(type, payload, id, options))
                note(inserted.task_id)
        return TaskHandle(inserted, pressure, self._source, self._handlers.result_of(type))

    async def enqueue_follow_up(self, request: Mapping[str, Any]) -> TaskHandle[Any]:
        """Enqueues a task for a handler, also while the queue stops and waits for it."""
        type, payload, id, options, tx = split_request(request)
        if tx is not None:
            raise NotSupported(NO_TX)
        return await self._enqueue(type, payload, id, options)

    async def enqueue_many(
        self, tasks: Iterable[Mapping[str, Any]], tx: object
    ) -> list[TaskHandle[Any]]:
        """Enqueues all tasks, or none."""
        self._check(tx)
        items = list(tasks)
        if len(items) > BATCH_MAX:
            raise BatchTooLarge(
                f"{len(items)} tasks in one batch: at most {BATCH_MAX} are allowed, split it"
            )
        await self._register()
        if not items:
            return []
        if (enqueuing := self._handlers.around.enqueuing) is None:
            bodies = [self._item(item) for item in items]
            answers = await self._insert_many(bodies)
        else:
            with enqueuing("many", len(items)):
                bodies = [self._item(item) for item in items]
                answers = await self._insert_many(bodies)
        return [
            TaskHandle(inserted, pressure, self._source, self._handlers.result_of(body["type"]))
            for (inserted, pressure), body in zip(answers, bodies, strict=True)
        ]

    async def enqueue_group(
        self, tasks: Iterable[Mapping[str, Any]], id: str | None, tx: object
    ) -> GroupHandle[Any]:
        """Enqueues all tasks as a group, or none."""
        self._check(tx)
        await self._register()
        body: dict[str, Any] = {"tasks": [self._item(item) for item in tasks]}
        if id is not None:
            body["id"] = check_group_id(id)
        answer = (await self._http.call("POST", path_of("task-groups"), body)).body
        inserted = [
            Inserted(item["id"], Status(item["status"]), item["created"])
            for item in answer["items"]
        ]
        return GroupHandle(
            answer["id"],
            tuple(each.task_id for each in inserted),
            self._groups,
            self._handlers.result_of,
            pressure=Pressure(answer["pressure"]),
            inserted=inserted,
        )

    def _check(self, tx: object) -> None:
        if tx is not None:
            raise NotSupported(NO_TX)
        if self._is_stopping():
            raise QueueStopping(
                "the queue is stopping and takes no new work: send it elsewhere or later"
            )

    async def _register(self) -> None:
        """Tells the gateway the types of this process, when they have changed: it has no other way to know
        the options that their tasks are enqueued with."""
        handlers = tuple(self._handlers)
        if handlers and handlers != self._registered:
            from holdfast.remote.compose import definitions_json

            text = definitions_json(self._handlers, self._settings.current.defaults)
            await self._http.call("PUT", path_of("types"), {"definitions_json": text})
            self._registered = handlers

    def _item(self, item: Mapping[str, Any]) -> dict[str, Any]:
        if not isinstance(item, Mapping) or "type" not in item:
            raise InvalidInput("a task of the batch is a mapping with a 'type'")
        fields = dict(item)
        kind, payload, task_id = (
            fields.pop("type"),
            fields.pop("payload", None),
            fields.pop("id", None),
        )
        check_options(fields)
        return self._body(kind, payload, task_id, EnqueueOptions(**fields))

    def _body(
        self, type: str, payload: object, id: str | None, options: EnqueueOptions
    ) -> dict[str, Any]:
        """The task as the API takes it. What cannot be written as JSON is refused here."""
        handler = self._handlers.get(type) if isinstance(type, str) else None
        if handler is not None and handler.parameters is not None:
            payload = checked_payload(handler.parameters, payload)
        text = encode_payload(payload)
        body: dict[str, Any] = {"type": type, "payload": msgspec.Raw(text.encode())}
        home = self._settings.current.project
        given = {
            "project": options.project or (None if home == DEFAULT_PROJECT else home),
            "id": id,
            "queue": options.queue,
            "priority": _priority(options.priority),
            "max_attempts": options.max_attempts,
            "metadata": options.metadata,
            "tags": check_tags(options.tags) or None,
            "key": options.key,
            "idempotency_key": options.idempotency_key,
        }
        body |= {name: value for name, value in given.items() if value is not None}
        if options.depends_on:
            body["depends_on"] = _edges(options.depends_on)
        if options.unique is not UNSET:
            body["unique"] = _window(options.unique)
        if (trace := CURRENT.get()) is not None:
            # In the body, because tasks of several callers share a request.
            body |= msgspec.structs.asdict(trace)
        return body | _times(options)

    async def _insert_one(self, body: dict[str, Any]) -> Answered:
        answer = (await self._http.call("POST", path_of("tasks"), body)).body
        task = answer["task"]
        inserted = Inserted(task["id"], Status(task["status"]), answer["created"])
        return inserted, Pressure(answer["pressure"])

    async def _insert_many(self, bodies: list[dict[str, Any]]) -> list[Answered]:
        answer = (await self._http.call("POST", path_of("tasks", "batch"), {"tasks": bodies})).body
        pressure = Pressure(answer["pressure"])
        return [
            (Inserted(item["id"], Status(item["status"]), item["created"]), pressure)
            for item in answer["items"]
        ]


def _window(given: object) -> dict[str, Any] | None:
    unique = check_unique(given)
    if unique is None:
        return None
    return {"until": unique.until, "period_seconds": unique.period, "by": unique.by}


def _times(options: EnqueueOptions) -> dict[str, Any]:
    """When the task starts, and how long it may take, in seconds."""
    found: dict[str, Any] = {}
    if options.delay:
        found["delay_seconds"] = in_seconds(options.delay)
    if options.run_at is not None:
        check_moment("run_at", options.run_at)
        found["run_at"] = options.run_at.isoformat()
    if options.timeout is not UNSET:
        found["timeout_seconds"] = in_seconds(options.timeout)
    if options.progress_timeout is not UNSET:
        found["progress_timeout_seconds"] = in_seconds(options.progress_timeout)
    return found


def _priority(given: Priority | str | int | None) -> str | int | None:
    return given.name.lower() if isinstance(given, Priority) else given


def _edges(depends_on: Any) -> list[Any]:
    if isinstance(depends_on, Mapping):
        return [{"id": str(parent), "policy": policy} for parent, policy in depends_on.items()]
    edges: list[Any] = []
    for edge in depends_on:
        if isinstance(edge, Edge):
            edges.append({"id": edge.parent_id, "policy": edge.policy.value})
        elif isinstance(edge, GroupHandle | BlockingGroupHandle):
            edges.append(f"{GROUP}{edge.id}")
        else:
            edges.append(str(edge))
    return edges
