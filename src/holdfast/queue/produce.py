"""Enqueueing.

Promises: an acknowledged enqueue is durable, with its event; callers that enqueue at the same time share
a commit; bad input is a typed error and nothing is written; a full queue answers QueueFull.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from holdfast.bus.port import WORK
from holdfast.core import pressure as pressures
from holdfast.core.codec import loads
from holdfast.core.dependency import Edge, Policy
from holdfast.core.limit import Rule
from holdfast.core.pressure import Load, Pressure
from holdfast.core.schedule import Schedule, next_fire
from holdfast.core.submit import BATCH_MAX, Request, Submission, encode_payload, submit, submit_like
from holdfast.core.task import Options, Priority, Status, Task
from holdfast.engine.batcher import Batcher
from holdfast.engine.handlers import TypeConfig
from holdfast.errors import BatchTooLarge, InvalidInput, QueueFull, UnknownType
from holdfast.queue.backend import Backend
from holdfast.queue.handle import TaskHandle
from holdfast.queue.lifecycle import Lifecycle
from holdfast.store.store import Inserted

GROUP_MAX: Final = 500
LOAD_SECONDS: Final = 1.0
TYPES_SECONDS: Final = 1.0
TYPE: Final = msgspec.json.Decoder(TypeConfig)

_SIMPLE: Final = {"type", "payload"}
DependsOn = Iterable[str | Edge] | Mapping[str, str]


class Produce(Lifecycle):
    """The part of a queue that takes work in."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._plain: Batcher[Submission, Inserted] = Batcher(self._flush, GROUP_MAX)
        self._types: dict[str, TypeConfig] = {}
        self._types_at = float("-inf")
        self._load: dict[str, tuple[Load, float]] = {}
        self._added: dict[str, int] = {}

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
        timeout: float | None = None,
        key: str | None = None,
        idempotency_key: str | None = None,
        tx: object = None,
    ) -> TaskHandle:
        """Hands a task in; durable when this returns. `key` is what key limits count by; `tx` is a
        connection of your own whose open transaction shall carry the enqueue."""
        backend = await self.open()
        self._check_open()
        config = await self._config(backend, type)
        request = self._request(
            config,
            type=type,
            payload=payload,
            queue=queue,
            priority=priority,
            max_attempts=max_attempts,
            metadata=metadata,
            depends_on=depends_on,
            delay=delay,
            timeout=timeout,
            key=key,
            idempotency_key=idempotency_key,
        )
        pressure = await self._pressure(backend, request.queue, 1)
        now = backend.store.now()
        submission = submit(
            request, task_id=id or backend.ids.task(now), now=now, own_id=id is not None
        )
        if tx is not None:
            hint = backend.bus.ride_along(WORK)
            inserted = (await backend.store.insert_carried(tx, [submission], hint=hint))[0]
        elif id is None and submission.is_plain:
            inserted = await self._plain.put(submission)
        else:
            hint = backend.bus.ride_along(WORK)
            inserted = (await backend.store.insert([submission], hint=hint))[0]
            self._wake_here()
        return self._handle(inserted, pressure)

    async def enqueue_many(
        self, tasks: Iterable[Mapping[str, Any]], *, tx: object = None
    ) -> list[TaskHandle]:
        """Many at once: each a mapping of the arguments of `enqueue`; all of them or none."""
        backend = await self.open()
        self._check_open()
        asked = list(tasks)
        if len(asked) > BATCH_MAX:
            raise BatchTooLarge(
                f"{len(asked)} tasks in one batch: at most {BATCH_MAX} are allowed, split it"
            )
        for type_name in {each.get("type") for each in asked}:
            if not isinstance(type_name, str):
                raise InvalidInput("a task of the batch has no type: give each a 'type'")
            await self._config(backend, type_name)
        group, plain = self._submissions(backend, asked)
        pressure = await self._pressures(backend, group)
        inserted = await self._insert_group(backend, group, plain=plain and tx is None, tx=tx)
        return [self._handle(each, pressure) for each in inserted]

    def _submissions(
        self, backend: Backend, asked: list[Mapping[str, Any]]
    ) -> tuple[list[Submission], bool]:
        """The rows of a batch, and whether none of them needs a look into the store. Items that say
        only type and payload are checked once for each type."""
        now = backend.store.now()
        models: dict[str, Submission] = {}
        group: list[Submission] = []
        plain = True
        for each in asked:
            model = models.get(each["type"]) if each.keys() <= _SIMPLE else None
            if model is not None:
                group.append(submit_like(model, each.get("payload"), backend.ids.task(now)))
                continue
            fields = dict(each)
            task_id = fields.pop("id", None)
            config = self._known_config(fields["type"])
            submission = submit(
                self._request(config, **fields),
                task_id=task_id or backend.ids.task(now),
                now=now,
                own_id=task_id is not None,
            )
            plain = plain and task_id is None and submission.is_plain
            if each.keys() <= _SIMPLE and submission.is_plain:
                models[submission.task.type] = submission
            group.append(submission)
        return group, plain

    async def _insert_group(
        self, backend: Backend, group: list[Submission], *, plain: bool, tx: object
    ) -> list[Inserted]:
        if not group:
            return []
        if tx is not None:
            return await backend.store.insert_carried(tx, group, hint=backend.bus.ride_along(WORK))
        if plain:
            found = await backend.store.insert_plain(group, hint=backend.bus.ride_along(WORK))
            self._wake_here()
            return found
        found = await backend.store.insert(group, hint=backend.bus.ride_along(WORK))
        self._wake_here()
        return found

    async def _flush(self, group: list[Submission]) -> list[Inserted]:
        """What concurrent callers handed in, as one statement."""
        backend = await self.open()
        found = await backend.store.insert_plain(group, hint=backend.bus.ride_along(WORK))
        self._wake_here()
        return found

    def _wake_here(self) -> None:
        if self._engine is not None:
            self._engine.dispatcher.wake()

    # -- what a request amounts to -----------------------------------------------------------------

    def _request(
        self,
        config: TypeConfig,
        *,
        type: str,
        payload: object = None,
        queue: str | None = None,
        priority: Priority | str | int | None = None,
        max_attempts: int | None = None,
        metadata: dict[str, object] | None = None,
        depends_on: DependsOn = (),
        delay: float = 0.0,
        timeout: float | None = None,
        key: str | None = None,
        idempotency_key: str | None = None,
    ) -> Request:
        s = self._settings
        if max_attempts is None:
            max_attempts = config.max_attempts or s.default_max_attempts
        return Request(
            type=type,
            payload=payload,
            queue=queue or config.queue,
            priority=config.priority if priority is None else priority,
            max_attempts=max_attempts,
            delay_seconds=delay,
            metadata=metadata,
            depends_on=_edges(depends_on),
            idempotency_key=idempotency_key,
            options=self._options(config, timeout),
            rules=_rules(config, type, key),
        )

    def _options(self, config: TypeConfig, timeout: float | None) -> Options:
        s = self._settings
        own = config.options
        default = Options()
        if timeout is not None and not timeout > 0:
            raise InvalidInput(f"timeout is {timeout!r}: give a positive number of seconds")
        return Options(
            timeout_seconds=timeout if timeout is not None else own.timeout_seconds,
            retry_base_seconds=own.retry_base_seconds
            if own.retry_base_seconds != default.retry_base_seconds
            else s.base_retry_delay,
            retry_cap_seconds=own.retry_cap_seconds
            if own.retry_cap_seconds != default.retry_cap_seconds
            else s.max_retry_delay,
            max_deaths=own.max_deaths if own.max_deaths != default.max_deaths else s.max_deaths,
        )

    def _known_config(self, type_name: str) -> TypeConfig:
        handler = self._handlers.get(type_name)
        return handler.config if handler is not None else self._types[type_name]

    async def _config(self, backend: Backend, type_name: str) -> TypeConfig:
        """The type's configuration, from a handler here or from the node that registered it."""
        handler = self._handlers.get(type_name)
        if handler is not None:
            return handler.config
        now = backend.store.now()
        if type_name not in self._types or now - self._types_at > TYPES_SECONDS * 60:
            rows = await backend.store.query("types")
            self._types = {name: TYPE.decode(config) for name, _, config in rows}
            self._types_at = now
        config = self._types.get(type_name)
        if config is None:
            known = ", ".join(sorted({*self._types, *self._handlers.types()})[:10]) or "none yet"
            raise UnknownType(
                f"no node has registered a handler for type '{type_name}' (known: {known}): "
                "register one and start that worker first, or check the name"
            )
        return config

    # -- backpressure --------------------------------------------------------------------------------

    async def _pressures(self, backend: Backend, group: Sequence[Submission]) -> Pressure:
        counts: dict[str, int] = {}
        for submission in group:
            counts[submission.task.queue] = counts.get(submission.task.queue, 0) + 1
        found = [await self._pressure(backend, queue, n) for queue, n in counts.items()]
        return max(found, key=list(Pressure).index, default=Pressure.ACCEPTED)

    async def _pressure(self, backend: Backend, queue: str, adding: int) -> Pressure:
        """Judged on figures at most a second old plus what was added here; a refusal only on fresh."""
        bounds = self._settings.bounds
        if bounds.depth_max is None and bounds.oldest_seconds_max is None:
            return Pressure.ACCEPTED
        now = backend.store.now()
        load, at = self._load.get(queue, (Load(0), float("-inf")))
        if now - at > LOAD_SECONDS:
            load = await self._fresh_load(backend, queue)
        added = self._added.get(queue, 0)
        answer, reason = pressures.judge(
            bounds, Load(load.depth + added, load.oldest_seconds), adding
        )
        if answer is Pressure.REJECTED:
            answer, reason = pressures.judge(bounds, await self._fresh_load(backend, queue), adding)
        if answer is Pressure.REJECTED:
            raise QueueFull(
                f"queue '{queue}' takes no more: {reason}; try again later or shed work"
            )
        self._added[queue] = self._added.get(queue, 0) + adding
        return answer

    async def _fresh_load(self, backend: Backend, queue: str) -> Load:
        rows = await backend.store.counters()
        depth = sum(n for q, _, _, status, n in rows if q == queue and status == Status.QUEUED)
        oldest = 0.0
        if self._settings.max_age is not None:
            due = await backend.store.query("oldest_due", queue=queue)
            if due and due[0][0] is not None:
                oldest = max(0.0, backend.store.now() - due[0][0])
        load = Load(depth, oldest)
        self._load[queue] = (load, backend.store.now())
        self._added[queue] = 0
        return load

    # -- schedules -----------------------------------------------------------------------------------

    def _scheduled(self, schedule: Schedule, now: float) -> Submission:
        """The task of a schedule that is due."""
        handler = self._handlers.get(schedule.type)
        config = handler.config if handler else self._types.get(schedule.type, TypeConfig())
        request = self._request(
            config,
            type=schedule.type,
            payload=loads(schedule.payload_json),
            queue=schedule.queue,
            priority=schedule.priority,
            metadata={"schedule": schedule.name},
        )
        assert self._backend is not None
        return submit(request, task_id=self._backend.ids.task(now), now=now)

    async def _put_schedule(self, backend: Backend, schedule: Schedule) -> None:
        next_at = next_fire(schedule.spec, schedule.timezone, backend.store.now())
        await backend.store.execute(
            "put_schedule",
            name=schedule.name,
            type=schedule.type,
            queue=schedule.queue,
            spec=schedule.spec,
            timezone=schedule.timezone,
            payload_json=schedule.payload_json,
            priority=schedule.priority,
            next_at=next_at,
        )

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
    ) -> None:
        """Adds or changes a cron schedule ('*/5 * * * *', or '@every 30'); it fires while any node of
        this store runs."""
        backend = await self.open()
        config = await self._config(backend, type)
        request = self._request(config, type=type, payload=payload, queue=queue, priority=priority)
        task = submit(request, task_id="check", now=0.0).task
        await self._put_schedule(
            backend,
            Schedule(
                name,
                type,
                task.queue,
                spec,
                timezone,
                encode_payload(payload),
                int(task.priority),
                0.0,
            ),
        )
        if self._engine is not None:
            self._engine.scheduler.wake()

    async def unschedule(self, name: str) -> None:
        """Removes a schedule; tasks that it made stay."""
        backend = await self.open()
        await backend.store.execute("drop_schedule", name=name)

    # -- answers ---------------------------------------------------------------------------------------

    def _handle(self, inserted: Inserted, pressure: Pressure) -> TaskHandle:
        return TaskHandle(inserted, pressure, self)

    async def get_task(self, task_id: str) -> Task | None:
        """The task, or None when there is none of that id."""
        backend = await self.open()
        return (await backend.store.get([task_id])).get(task_id)

    async def wait_task(self, task_id: str, timeout: float | None = None) -> Task:
        """The task once it has ended, well or badly; WaitTimeout after `timeout` seconds."""
        await self.open()
        return await self._waiters.wait(task_id, timeout)


def _edges(depends_on: DependsOn) -> tuple[Edge, ...]:
    """Ids, edges, or a mapping from id to policy."""
    if isinstance(depends_on, str):
        raise InvalidInput("depends_on is a text: give a list of task ids")
    if isinstance(depends_on, Mapping):
        return tuple(Edge(parent, _policy(policy)) for parent, policy in depends_on.items())
    edges = [each if isinstance(each, Edge) else Edge(str(each)) for each in depends_on]
    return tuple({edge.parent_id: edge for edge in edges}.values())


def _policy(text: str) -> Policy:
    try:
        return Policy(text)
    except ValueError:
        raise InvalidInput(f"edge policy '{text}' is not known: use 'fail' or 'ignore'") from None


def _rules(config: TypeConfig, type_name: str, key: str | None) -> tuple[tuple[str, Rule], ...]:
    rules: list[tuple[str, Rule]] = []
    if config.limit is not None:
        rules.append((type_name, config.limit))
    if key is not None and config.key_limit is not None:
        rules.append((f"{type_name}/{key}", config.key_limit))
    return tuple(rules)
