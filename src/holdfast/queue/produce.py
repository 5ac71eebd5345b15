"""Enqueueing.

Promises: an acknowledged enqueue is durable, with its event; callers that enqueue at the same time share
a commit; bad input is a typed error and nothing is written; a full queue answers QueueFull.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, Final

from msgspec import UNSET, UnsetType

from holdfast.bus.port import WORK, of_children
from holdfast.core.check import check_name, check_number, shown
from holdfast.core.pressure import ACCEPTED
from holdfast.core.submit import BATCH_MAX, Submission, submit, submit_like
from holdfast.core.task import Priority, Task
from holdfast.engine.batcher import Batcher
from holdfast.engine.handlers import TypeConfig
from holdfast.errors import BatchTooLarge, InvalidInput
from holdfast.queue.backend import Backend
from holdfast.queue.handle import TaskHandle
from holdfast.queue.requests import DependsOn, Requests
from holdfast.queue.session import Session
from holdfast.queue.settings import Settings
from holdfast.store.store import Inserted

GROUP_MAX: Final = 500
_DEFAULTS: Final[dict[str, object]] = {
    "queue": None,
    "priority": None,
    "max_attempts": None,
    "metadata": None,
    "depends_on": (),
    "delay": 0.0,
    "timeout": UNSET,
    "key": None,
    "idempotency_key": None,
}
_UNSAID: Final = tuple(_DEFAULTS.values())


def _given(said: tuple[object, ...]) -> dict[str, Any]:
    """The options that a caller gave, by name."""
    named = zip(_DEFAULTS.items(), said, strict=True)
    return {name: value for (name, default), value in named if value != default}


def check_options(given: Mapping[str, object], *, allowed: tuple[str, ...] = ()) -> None:
    """InvalidInput when one of these is no option of an enqueue."""
    if given.keys() <= _DEFAULTS.keys():
        return
    unknown = sorted(given.keys() - {*allowed, *_DEFAULTS}, key=str)
    if unknown:
        names = ", ".join((*allowed, *_DEFAULTS))
        raise InvalidInput(f"a task has no option {shown(unknown[0])}: the options are {names}")


def _items(tasks: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    if not isinstance(tasks, Iterable) or isinstance(tasks, str | bytes | Mapping):
        raise InvalidInput(f"tasks is {shown(tasks)}: give a list of mappings")
    items = list(tasks)
    if len(items) > BATCH_MAX:
        raise BatchTooLarge(
            f"{len(items)} tasks in one batch: at most {BATCH_MAX} are allowed, split it"
        )
    return items


def _types(items: list[Mapping[str, Any]]) -> set[str]:
    """The types of a batch."""
    try:
        return {each["type"] for each in items}
    except (TypeError, KeyError, IndexError):
        for each in items:
            if not isinstance(each, Mapping):
                raise InvalidInput(
                    f"a task of the batch is {shown(each)}: give a mapping"
                ) from None
            if "type" not in each:
                raise InvalidInput("a task of the batch has no type: give each a 'type'") from None
            check_name("type", each["type"])
        raise


class Produce(Requests):
    """The part of a queue that takes work in."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._models: dict[str, tuple[TypeConfig, Settings, Submission]] = {}

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
        session = self._ready or await self._session()
        backend = session.store_and_bus
        if session.stopping:
            self._check_open()
        try:
            handler = self._handlers.get(type)
        except TypeError:  # not even hashable
            handler = None
        config = handler.config if handler is not None else await self._config(backend, type)
        said = (
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
        given = {} if said == _UNSAID else _given(said)
        now = backend.store.now()
        submission = self._submission(backend, config, type, payload, id, given, now)
        if self._is_at_ease(submission.task.queue, now):
            pressure = ACCEPTED
        else:
            pressure = await self._pressure(
                backend, submission.task.queue, 1, carried=tx is not None
            )
        if tx is not None:
            inserted = (await self._carry(backend, [submission], tx))[0]
        elif submission.is_plain:
            inserted = await (session.plain or self._batcher(session)).put(submission)
        else:
            ride = backend.bus.notify_in_tx(WORK)
            inserted = (await backend.store.insert([submission], hint=ride.hint))[0]
            backend.bus.committed(ride)
        return TaskHandle(inserted, pressure, self)

    def _submission(
        self,
        backend: Backend,
        config: TypeConfig,
        type: str,
        payload: object,
        id: str | None,
        given: dict[str, Any],
        now: float,
    ) -> Submission:
        """The row of one task. What says only type and payload is checked once for each type."""
        if id is None and not given:
            kept = self._models.get(type)
            if kept is not None and kept[0] is config and kept[1] is self._settings:
                return submit_like(kept[2], payload, backend.ids.task(now), now)
        task_id = backend.ids.task(now) if id is None else id
        request = self._request(config, type=type, payload=payload, **given)
        submission = submit(request, task_id=task_id, now=now, id_given=id is not None)
        if id is None and not given and submission.is_plain:
            self._models[type] = (config, self._settings, submission)
        return submission

    async def enqueue_many(
        self, tasks: Iterable[Mapping[str, Any]], *, tx: object = None
    ) -> list[TaskHandle]:
        """Many at once: each a mapping of the arguments of `enqueue`; all of them or none."""
        backend = await self._open()
        self._check_open()
        asked = _items(tasks)
        for type_name in _types(asked):
            await self._config(backend, type_name)
        group = self._submissions(backend, asked)
        pressure = await self._pressures(backend, group, carried=tx is not None)
        inserted = await self._insert_group(backend, group, tx)
        return [TaskHandle(each, pressure, self) for each in inserted]

    def _submissions(self, backend: Backend, asked: list[Mapping[str, Any]]) -> list[Submission]:
        """The rows of a batch. Items that say only type and payload are checked once for each type."""
        group: list[Submission] = []
        models: dict[str, Submission] = {}
        now, new_id = backend.store.now(), backend.ids.task
        for each in asked:
            task_type = each["type"]
            is_like_others = len(each) == 2 and "payload" in each
            if is_like_others and (model := models.get(task_type)) is not None:
                group.append(submit_like(model, each["payload"], new_id(now), now))
                continue
            fields = dict(each)
            payload, task_id = fields.pop("payload", None), fields.pop("id", None)
            del fields["type"]
            check_options(fields)
            config = self._known_config(task_type)
            submission = self._submission(backend, config, task_type, payload, task_id, fields, now)
            group.append(submission)
            if is_like_others and submission.is_plain:
                models[task_type] = submission
        return group

    async def _insert_group(
        self, backend: Backend, group: list[Submission], tx: object
    ) -> list[Inserted]:
        if not group:
            return []
        if tx is not None:
            return await self._carry(backend, group, tx)
        ride = backend.bus.notify_in_tx(WORK)
        found = await backend.store.insert(group, hint=ride.hint)
        backend.bus.committed(ride)
        return found

    async def _carry(self, backend: Backend, group: list[Submission], tx: object) -> list[Inserted]:
        """Within the caller's transaction; the hint goes out with its commit."""
        hint = backend.bus.notify_in_tx(WORK, must=True).hint
        if any(submission.edges for submission in group):
            hint = of_children(hint)
        return await backend.store.insert(group, tx=tx, hint=hint)

    def _batcher(self, session: Session) -> Batcher[Submission, Inserted]:
        """Callers of one event loop share commits."""
        session.plain = Batcher(
            partial(self._hand_in, session), partial(self._flush, session), GROUP_MAX
        )
        return session.plain

    async def _hand_in(self, session: Session, submission: Submission) -> Inserted:
        """What a single caller handed in."""
        backend = session.store_and_bus
        store = backend.store
        if store.one_writer and session.engine is not None:
            dispatcher = session.engine.dispatcher
            if dispatcher.is_idle:
                return (await dispatcher.take_in([submission]))[0]
            # Woken before and after: a claim that comes right behind shares the commit.
            dispatcher.wake()
        ride = backend.bus.notify_in_tx(WORK, one=True)
        (inserted,) = await store.insert([submission], hint=ride.hint)
        backend.bus.committed(ride)
        return inserted

    async def _flush(self, session: Session, group: list[Submission]) -> list[Inserted]:
        """What concurrent callers handed in, as one statement."""
        backend = session.store_and_bus
        if backend.store.one_writer and session.engine is not None:
            dispatcher = session.engine.dispatcher
            if dispatcher.is_idle:
                return await dispatcher.take_in(group)
            dispatcher.wake()
        ride = backend.bus.notify_in_tx(WORK)
        found = await backend.store.insert(group, hint=ride.hint)
        backend.bus.committed(ride)
        return found

    async def get_task(self, task_id: str) -> Task | None:
        """The task, or None when there is none of that id."""
        check_name("task_id", task_id)
        backend = await self._open()
        return (await backend.store.get([task_id])).get(task_id)

    async def wait_task(self, task_id: str, timeout: float | None = None) -> Task:
        """The task once it has ended, well or badly; WaitTimeout after `timeout` seconds."""
        check_name("task_id", task_id)
        if timeout is not None:
            check_number("timeout", timeout)
        await self._open()
        return await self._here.waiters.wait(task_id, timeout)
