"""The short way of a bare enqueue: a payload without options, for a type with a handler in this process.

The first bare task of a type comes the general way and is the model of the next ones: what they share is
prepared once in each session, and no row is made in Python.

Promises: the checks, the row and the event of the general way. Never: takes a task that needs more than its
insert, which is one within a trace, in a queue whose backlog has to be counted, with metrics, or while the
queue stops.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from holdfast.core.pressure import ACCEPTED
from holdfast.core.submit import Submission, encode_payload
from holdfast.engine.handle import Source, TaskHandle
from holdfast.engine.handlers import Handler, TypeConfig
from holdfast.engine.parameters import checked_payload
from holdfast.queue.pressure import Backpressure
from holdfast.queue.session import Resources, Session
from holdfast.queue.settings import Settings, SettingsInForce
from holdfast.queue.types import KnownTypes
from holdfast.store.store import PreparedInsert
from holdfast.tracing import CURRENT


class BareTasks(NamedTuple):
    """Bare tasks of one type in one session."""

    resources: Resources
    handler: Handler
    settings: Settings
    model: Submission
    """A task whose options were checked."""
    insert: PreparedInsert

    def is_of(self, handler: Handler | None, settings: Settings) -> bool:
        return self.handler is handler and self.settings is settings


class BareEnqueue:
    """One for each queue."""

    def __init__(
        self,
        types: KnownTypes,
        settings: SettingsInForce,
        pressure: Backpressure,
        source: Source,
    ) -> None:
        self._types = types
        self._settings = settings
        self._pressure = pressure
        self._source = source

    def learn(
        self, session: Session, type: str, config: TypeConfig, submission: Submission
    ) -> None:
        """A bare task has come the general way, made by this config: it may be the model of its type."""
        handler, settings = self._types.handlers.get(type), self._settings.current
        # The handler may have been registered while the type was looked up.
        if handler is None or handler.config is not config:
            return
        # Tags are rows of their own, which only the general way writes.
        if not submission.is_plain or submission.task.tags_json is not None:
            return
        if (bare := session.bare.get(type)) is None or not bare.is_of(handler, settings):
            resources = session.open_resources
            insert = resources.store.prepare_insert(submission)
            session.bare[type] = BareTasks(resources, handler, settings, submission, insert)

    def known(self, session: Session, type: str) -> BareTasks | None:
        """None: the task goes the general way."""
        bare: BareTasks | None = session.bare.get(type) if isinstance(type, str) else None
        if (
            bare is None
            or not bare.is_of(self._types.handlers.get(type), self._settings.current)
            or session.stopping
            or CURRENT.get() is not None
        ):
            return None
        return bare

    async def enqueue(
        self, session: Session, bare: BareTasks, payload: object
    ) -> TaskHandle[Any] | None:
        """None: nothing is written, and the task goes the general way."""
        resources, handler, _, model, insert = bare
        if handler.parameters is not None:
            payload = checked_payload(handler.parameters, payload)
        payload_json = encode_payload(payload)
        now = resources.store.now()
        task_id = resources.ids.task(now)
        queue, key = model.task.queue, id(task_id)
        if not self._pressure.is_at_ease(queue, key, now):
            return None
        try:
            inserted = await session.open_new_tasks.insert_prepared(
                model, insert, task_id, payload_json, now
            )
        finally:
            self._pressure.ended(queue, key)
        return TaskHandle(inserted, ACCEPTED, self._source, handler.result)
