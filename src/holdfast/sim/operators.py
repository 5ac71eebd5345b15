"""Operators of a simulated cluster: they cancel, pause, replay, edit and inspect while it runs.

Promises: each action targets an object it applies to (a running task is paused, a dead one replayed) and
may fail like any other call. Acknowledged cancellations are recorded.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from holdfast.core.intervention import InterventionType
from holdfast.core.task import Status, Task
from holdfast.queue.queue import Queue
from holdfast.sim.draw import Draw
from holdfast.sim.handler_outcomes import KEYED, KEYS, NIGHTLY, TYPES
from holdfast.sim.record import Record

Verb = Callable[[], Awaitable[None]]
EXTRA: Final = "extra"
"""Prefix of the names of schedules that operators add."""


class Operator:
    """One operator."""

    def __init__(self, name: str, queue: Queue, record: Record, draw: Draw) -> None:
        self._name = name
        self._queue = queue
        self._record = record
        self._draw = draw
        self._requests = 0

    @property
    def of_any_task(self) -> tuple[Verb, ...]:
        """Actions that apply to tasks of any type."""
        return (self._cancel, self._replay, self._pause_queue, self._pause_running, self._look)

    @property
    def verbs(self) -> tuple[Verb, ...]:
        return (
            *self.of_any_task,
            *(self._pause_running, self._resume, self._edit, self._replay_many, self._discard),
            *(self._schedule, self._inspect),
            *(self._hold, self._take_away, self._retry, self._reassign, self._answer),
        )

    async def _cancel(self) -> None:
        if self._record.acks:
            task_id = self._draw.pick(self._record.acks).task_id
            await self._queue.cancel(task_id, actor=self._name)
            self._record.aborted.add(task_id)

    async def _replay(self) -> None:
        for task in await self._queue.get_dead_tasks(limit=5):
            if self._draw.chance(0.5):
                await self._queue.replay_dead_task(task.id)

    async def _replay_many(self) -> None:
        """Replays by filter, with or without a rate."""
        rate = self._draw.pick((None, 1.0))
        await self._queue.replay_dead(type=self._draw.pick(TYPES), rate=rate, limit=5)

    async def _discard(self) -> None:
        await self._queue.discard_dead(type=self._draw.pick(TYPES), limit=3, actor=self._name)

    async def _edit(self) -> None:
        """Replaces the payload of a queued task."""
        if (task := await self._any(Status.QUEUED)) is not None:
            await self._queue.edit_task(task.id, {"edited": self._name}, actor=self._name)

    async def _pause_queue(self) -> None:
        if self._draw.chance(0.5):
            await self._queue.pause_queue(actor=self._name)
        await self._queue.resume_queue(actor=self._name)

    async def _pause_running(self) -> None:
        """Pauses a running task and often resumes it at once, while the handler still cleans up."""
        if (task := await self._any(Status.RUNNING)) is not None:
            await self._queue.pause_task(task.id, actor=self._name)
            if self._draw.chance(0.7):
                await self._queue.resume_task(task.id, actor=self._name)

    async def _resume(self) -> None:
        for task in await self._queue.find_tasks(status=Status.PAUSED, limit=5):
            await self._queue.resume_task(task.id, actor=self._name)

    async def _hold(self) -> None:
        """Holds a queued task, and often lets it go."""
        if (task := await self._any(Status.QUEUED)) is not None:
            await self._intervene(task, InterventionType.PAUSE)
            if self._draw.chance(0.7):
                await self._intervene(task, InterventionType.RESUME)

    async def _take_away(self) -> None:
        """Takes a running task from its runner."""
        if (task := await self._any(Status.RUNNING)) is not None:
            if self._draw.chance(0.5):
                await self._intervene(task, InterventionType.RELEASE_LOCK)
            else:
                await self._intervene(task, InterventionType.FORCE_STATUS, status="queued")

    async def _retry(self) -> None:
        if (task := await self._any(self._draw.pick((Status.QUEUED, Status.FAILED)))) is not None:
            await self._intervene(task, InterventionType.RETRY)

    async def _reassign(self) -> None:
        """Reserves a task for a node that may die before it claims it."""
        task = await self._any(self._draw.pick((Status.QUEUED, Status.RUNNING)))
        nodes = await self._queue.get_nodes()
        if task is not None and nodes:
            node = self._draw.pick(nodes).id
            seconds = self._draw.between(1.0, 30.0)
            await self._intervene(
                task, InterventionType.REASSIGN, to_node=node, fallback_seconds=seconds
            )

    async def _intervene(self, task: Task, kind: InterventionType, **args: object) -> None:
        """Intervenes, and sometimes repeats the request, which must have no further effect."""
        self._requests += 1
        name = f"{self._name}-{task.id}-{self._requests}"
        for _ in range(self._draw.whole(1, 2)):
            await self._queue.intervene(
                task.id, kind, "by the simulation", args=args, actor=self._name, id=name
            )

    async def _answer(self) -> None:
        """Answers decisions that tasks wait for, sometimes twice."""
        for decision in await self._queue.decisions(state="open", limit=5):
            for _ in range(self._draw.whole(1, 2)):
                choice = self._draw.pick(("yes", "no"))
                await self._queue.decide(decision.id, choice, actor=self._name)

    async def _any(self, status: Status) -> Task | None:
        tasks = await self._queue.find_tasks(status=status, limit=20)
        tasks = [task for task in tasks if task.type in TYPES]
        return self._draw.pick(tasks) if tasks else None

    async def _schedule(self) -> None:
        name = f"{EXTRA} {self._draw.below(2)}"
        match self._draw.below(4):
            case 0:
                await self._queue.unschedule(name)
            case 1:
                await self._queue.pause_schedule(name, actor=self._name)
            case 2:
                await self._queue.resume_schedule(name, actor=self._name)
            case _:
                await self._queue.schedule(name, "@every 20", NIGHTLY)

    async def _look(self) -> None:
        await self._queue.get_stats()
        if self._record.acks:
            task_id = self._draw.pick(self._record.acks).task_id
            await self._queue.why(task_id)
            await self._queue.history(task_id)

    async def _inspect(self) -> None:
        """Calls the read methods that a dashboard uses, and gives a key of the fair type another weight."""
        await self._queue.open()
        await self._queue.get_schedules()
        await self._queue.get_queue_size()
        await self._queue.get_dead_groups()
        await self._queue.get_queues()
        await self._queue.get_nodes()
        await self._queue.position()
        if self._record.acks:
            task_id = self._draw.pick(self._record.acks).task_id
            await self._queue.get_task(task_id)
            await self._queue.get_dependents(task_id)
        await self._queue.weights(KEYED)
        key, weight = self._draw.pick(KEYS), self._draw.whole(1, 3)
        await self._queue.set_weight(KEYED, key, weight, actor=self._name)
