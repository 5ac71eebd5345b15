"""Enqueues tasks.

Promises: an acknowledged enqueue is durable, with its event. Concurrent callers share a commit. Bad input
raises a typed error, and nothing is written. A full queue raises QueueFull.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from holdfast.core.alike import make
from holdfast.core.group import check_group_id, named_items, new_group
from holdfast.core.keywords import DependsOn
from holdfast.core.pressure import ACCEPTED, Pressure
from holdfast.core.submit import (
    Submission,
    inserted_at,
)
from holdfast.core.task import Task
from holdfast.engine.group_handle import GroupHandle, GroupSource
from holdfast.engine.handle import Source, TaskHandle
from holdfast.engine.handles import handles_of
from holdfast.engine.meters import ENQUEUED
from holdfast.errors import QueueFull
from holdfast.metrics import Meter
from holdfast.queue.bare import BareEnqueue
from holdfast.queue.group_members import with_members
from holdfast.queue.new_rows import NewRows, traced
from holdfast.queue.pressure import Backpressure
from holdfast.queue.requests import batch_of, split_request, types_of
from holdfast.queue.session import Resources, Session, Sessions
from holdfast.queue.settings import SettingsInForce
from holdfast.queue.types import EnqueueOptions, KnownTypes
from holdfast.store.beside import Beside, OnlyRepeats
from holdfast.store.store import Inserted, Store
from holdfast.tracing import CURRENT

MakeBeside = Callable[[Pressure], Beside]
"""Makes what an insert writes beside its tasks, once the pressure of the queue is known."""


def count_enqueued(meter: Meter, group: Sequence[Submission], inserted: Sequence[Inserted]) -> None:
    """Counts new tasks by type and queue."""
    new = Counter(
        (submission.task.type, submission.task.queue)
        for submission, answer in zip(group, inserted, strict=True)
        if answer.created
    )
    for (type, queue), n in new.items():
        meter.count(ENQUEUED, n, type=type, queue=queue)


class Enqueued(NamedTuple):
    """A task that was enqueued."""

    submission: Submission
    inserted: Inserted
    pressure: Pressure

    @property
    def row(self) -> Task | None:
        """The row that the store has inserted. None: only a read shows it."""
        at = self.inserted.created_at
        if at is None or not self.inserted.created:
            return None
        return inserted_at(self.submission.task, at)


class Producer:
    """Enqueues one task or many, also in the caller's transaction."""

    def __init__(
        self,
        sessions: Sessions,
        types: KnownTypes,
        pressure: Backpressure,
        settings: SettingsInForce,
        *,
        source: Source,
        groups: GroupSource,
    ) -> None:
        self._groups = groups
        self._sessions = sessions
        self._types = types
        self._pressure = pressure
        self._settings = settings
        self._source = source
        self.meter: Meter | None = None
        self._new_rows = NewRows(types, settings)
        self._bare = BareEnqueue(types, settings, pressure, source)

    async def enqueue(
        self,
        type: str,
        payload: object,
        id: str | None,
        options: EnqueueOptions,
        tx: object,
        *,
        beside: MakeBeside | None = None,
        by_handler: bool = False,
    ) -> TaskHandle[Any]:
        """Enqueues one task. `beside` writes further rows in its transaction. A handler may enqueue while
        the queue stops and waits for it."""
        enqueuing = self._types.handlers.around.enqueuing
        is_bare = id is None and tx is None and beside is None and options.are_none
        if is_bare and enqueuing is None and self.meter is None:
            session = self._sessions.ready
            if session is not None and (bare := self._bare.known(session, type)) is not None:
                handle = await self._bare.enqueue(session, bare, payload)
                if handle is not None:
                    return handle
        if enqueuing is None:
            made = await self.insert(
                type, payload, id, options, tx, beside=beside, by_handler=by_handler
            )
        else:
            with enqueuing(str(type), 1) as note:
                made = await self.insert(
                    type, payload, id, options, tx, beside=beside, by_handler=by_handler
                )
                note(made.inserted.task_id)
        return TaskHandle(
            made.inserted, made.pressure, self._source, self._types.handlers.result_of(type)
        )

    async def insert(
        self,
        type: str,
        payload: object,
        id: str | None,
        options: EnqueueOptions,
        tx: object,
        *,
        beside: MakeBeside | None = None,
        by_handler: bool = False,
    ) -> Enqueued:
        """Like `enqueue`, for a caller that shows the task."""
        session = self._sessions.ready or await self._sessions.opened()
        resources = session.resources or session.open_resources
        if session.stopping and not by_handler:
            session.check_takes_work()
        config, payload = await self._types.checked(resources.store, type, payload)
        if options.depends_on:
            parents = await self._parents(resources.store, options.depends_on, options.project)
            options = replace(options, depends_on=parents)
        now = resources.store.now()
        submission = self._new_rows.one(
            resources, config, type, payload, id=id, options=options, now=now
        )
        if id is None and options.are_none:
            self._bare.learn(session, type, config, submission)
        return await self._insert_one(session, traced(submission, CURRENT.get()), now, beside, tx)

    async def _insert_one(
        self,
        session: Session,
        submission: Submission,
        now: float,
        beside: MakeBeside | None,
        tx: object,
    ) -> Enqueued:
        """Inserts one task by the cheapest way that serves it."""
        pressure, rows = ACCEPTED, None
        queue, key = submission.task.queue, id(submission)
        try:
            if beside is not None or not self._pressure.is_at_ease(queue, key, now):
                resources = session.open_resources
                pressure, rows = await self._admit(resources, [submission], key, beside, tx)
            new_tasks = session.new_tasks or session.open_new_tasks
            if tx is not None:
                inserted = (await new_tasks.insert_in_tx([submission], tx))[0]
            elif submission.is_plain and rows is None:
                inserted = await new_tasks.insert_plain(submission)
            else:
                inserted = (await new_tasks.insert([submission], rows))[0]
        finally:
            self._pressure.ended(queue, key)
        if self.meter is not None:
            count_enqueued(self.meter, [submission], [inserted])
        return Enqueued(submission, inserted, pressure)

    async def enqueue_follow_up(self, request: Mapping[str, Any]) -> TaskHandle[Any]:
        """Enqueues a task for a handler (`ctx.enqueue`)."""
        given = split_request(request)
        return await self.enqueue(*given, by_handler=True)

    async def enqueue_many(
        self, tasks: Iterable[Mapping[str, Any]], tx: object, *, beside: MakeBeside | None = None
    ) -> list[TaskHandle[Any]]:
        """Enqueues all tasks, or none. `beside` writes further rows in their transaction."""
        return await self._enqueue_items(batch_of(tasks), tx, beside=beside)

    async def _enqueue_items(
        self,
        items: list[Mapping[str, Any]],
        tx: object,
        *,
        beside: MakeBeside | None,
        group_id: str | None = None,
    ) -> list[TaskHandle[Any]]:
        """Inserts all tasks, within the span of the producer if there is tracing."""
        enqueuing = self._types.handlers.around.enqueuing
        if enqueuing is None or not items:
            return await self._insert_all(items, tx, beside=beside, group_id=group_id)
        types = types_of(items)
        with enqueuing(types.pop() if len(types) == 1 else "many", len(items)):
            return await self._insert_all(items, tx, beside=beside, group_id=group_id)

    async def enqueue_group(
        self,
        tasks: Iterable[Mapping[str, Any]],
        id: str | None,
        tx: object,
        *,
        beside: MakeBeside | None = None,
        made_id: str | None = None,
    ) -> GroupHandle[Any]:
        """Enqueues all tasks as a group, or none. A given id makes the request repeatable. `made_id`: the id
        of a group that is given none, from a caller that has made it."""
        resources = await self._sessions.open()
        items = batch_of(tasks)
        types_of(items)
        if id is not None:
            items = named_items(check_group_id(id), items)
        group_id = id or made_id or resources.ids.task(resources.store.now())
        handles = await self._enqueue_items(items, tx, beside=beside, group_id=group_id)
        return GroupHandle(
            group_id,
            tuple(handle.id for handle in handles),
            self._groups,
            self._types.handlers.result_of,
            pressure=handles[0].pressure,
            inserted=[handle.inserted for handle in handles],
        )

    async def _insert_all(
        self,
        items: list[Mapping[str, Any]],
        tx: object,
        *,
        beside: MakeBeside | None,
        group_id: str | None = None,
    ) -> list[TaskHandle[Any]]:
        resources = await self._sessions.open()
        session = self._sessions.here
        session.check_takes_work()
        types, handlers = types_of(items), self._types.handlers
        for type_name in types:
            await self._types.find(resources.store, type_name)
        # Those with a handler here are checked with the submissions, without awaiting each.
        elsewhere = {
            name for name in types if name not in handlers and self._types.config(name).arguments
        }
        if elsewhere:
            for item in items:
                if item["type"] in elsewhere:
                    await self._types.checked(resources.store, item["type"], item.get("payload"))
        if any("depends_on" in item for item in items):
            items = [await self._linked(resources.store, item) for item in items]
        group = self._new_rows.batch(resources, items)
        if resources.store.one_writer or not (tx is None and beside is None and group_id is None):
            make(group)  # The store does not prepare one part while it writes another.
        into = None if group_id is None else new_group(group_id, group)
        if not group:
            return []
        with self._pressure.under_way(group):
            pressure, rows = await self._admit(resources, group, id(group), beside, tx)
            new_tasks = session.open_new_tasks
            if tx is not None:
                inserted = await new_tasks.insert_in_tx(group, tx, into)
            else:
                inserted = await new_tasks.insert(group, rows, into)
        if self.meter is not None:
            count_enqueued(self.meter, group, inserted)
        declared = {name: handlers.result_of(name) for name in types}
        if len(types) == 1:
            return handles_of(inserted, pressure, self._source, declared[types.pop()])
        return [
            TaskHandle(answer, pressure, self._source, declared[item["type"]])
            for answer, item in zip(inserted, items, strict=True)
        ]

    async def _linked(self, store: Store, item: Mapping[str, Any]) -> Mapping[str, Any]:
        """The task of a batch with the tasks of groups in its dependencies."""
        if not item.get("depends_on"):
            return item
        parents = await self._parents(store, item["depends_on"], item.get("project"))
        return {**item, "depends_on": parents}

    async def _parents(self, store: Store, depends_on: DependsOn, project: str | None) -> DependsOn:
        """The dependencies with the tasks of groups. No project: that of the queue."""
        return await with_members(store, depends_on, project or self._settings.current.project)

    async def _admit(
        self,
        resources: Resources,
        group: Sequence[Submission],
        key: int,
        beside: MakeBeside | None,
        tx: object,
    ) -> tuple[Pressure, Beside | None]:
        """The pressure, and what the insert writes beside. In a full queue the insert answers a repeat of
        an earlier request, and raises QueueFull for a new one. In the caller's transaction QueueFull comes
        before the insert: it cannot be undone."""
        refusal = None
        try:
            in_tx = tx is not None
            pressure = await self._pressure.judge_group(resources.store, group, key, in_tx=in_tx)
        except QueueFull as error:
            make(group)  # A payload that is refused is the first error.
            may_repeat = beside or any(
                one.task.request_hash is not None or one.unique is not None for one in group
            )
            if tx is not None or not may_repeat:
                raise
            pressure, refusal = Pressure.UNDER_PRESSURE, error
        rows = None if beside is None else beside(pressure)
        return pressure, rows if refusal is None else OnlyRepeats(refusal, rows)
