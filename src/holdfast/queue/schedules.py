"""Use cases of schedules, which are stored and fire while nodes run.

A schedule that was added with `put` fires until it is removed, while any node with its type runs. A schedule
that was defined with `@task(cron=...)` belongs to the code: it fires while a node with that code runs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, TypeVar

from msgspec import UNSET

from holdfast.bus.port import FEED, WORK
from holdfast.core.backfill import fire_key, moment_of, past_fires
from holdfast.core.check import check_name
from holdfast.core.codec import loads
from holdfast.core.schedule import CODE, Schedule, check_timetable
from holdfast.core.submit import Submission, encode_payload, submit
from holdfast.core.task import Priority, Task
from holdfast.core.wire import time_text
from holdfast.errors import IdempotencyConflict, NotFound
from holdfast.queue.by import By
from holdfast.queue.session import Resources, Sessions
from holdfast.queue.types import EnqueueOptions, KnownTypes
from holdfast.store.schedules import ScheduleStore
from holdfast.store.store import Inserted

T = TypeVar("T")


class Backfill(NamedTuple):
    """The past times of a schedule that get their tasks."""

    schedule: Schedule
    range: tuple[float, float]
    times: list[float]


class Schedules:
    """The use cases of schedules, and the tasks that they enqueue."""

    def __init__(self, sessions: Sessions, types: KnownTypes) -> None:
        self._sessions = sessions
        self._types = types

    async def list(self) -> list[Schedule]:
        """Returns all schedules of the store, by name."""
        resources = await self._sessions.open()
        return await resources.store.reads.schedules()

    async def get(self, name: str) -> Schedule:
        """Returns one schedule. Raises NotFound if it does not exist."""
        schedule = await self.find(name)
        if schedule is None:
            raise NotFound(f"there is no schedule '{name}': see the list of schedules")
        return schedule

    async def find(self, name: str) -> Schedule | None:
        """Returns one schedule. None if it does not exist."""
        return next((each for each in await self.list() if each.name == name), None)

    async def put(
        self,
        name: str,
        by: By,
        *,
        spec: str,
        type: str,
        payload: object = None,
        timezone: str = "UTC",
        queue: str | None = None,
        priority: Priority | str | int | None = None,
        project: str | None = None,
    ) -> None:
        """Adds or changes a schedule. Raises Conflict if a task defined with `cron` has this name, or a
        schedule of another project."""
        check_name("name", name)
        check_timetable(spec, timezone)
        resources = await self._sessions.open()
        config, payload = await self._types.checked(resources.store, type, payload)
        request = self._types.request(
            config,
            type=type,
            payload=payload,
            options=EnqueueOptions(queue, priority, project=project),
        )
        task = submit(request, task_id="check", now=0.0).task
        schedule = Schedule(
            name,
            type,
            task.queue,
            spec,
            timezone,
            encode_payload(payload),
            int(task.priority),
            0.0,
            project=task.project,
        )
        await resources.store.schedules.put(
            schedule,
            actor=by.actor,
            reason=by.reason,
            expected_version=by.expected_version,
            beside=by.beside,
        )
        resources.bus.publish(FEED)
        self.wake()

    async def remove(self, name: str, by: By) -> None:
        """Removes a schedule, but not the tasks it has enqueued. Raises NotFound if it does not exist."""
        await self._change(name, lambda stored: stored.remove(name, by))

    async def pause(self, name: str, by: By) -> Schedule:
        """Pauses a schedule until it is resumed. The pause survives restarts of the nodes."""
        return await self._change(name, lambda stored: stored.pause(name, by))

    async def resume(self, name: str, by: By) -> Schedule:
        """Resumes a paused schedule. It fires at its next regular time."""
        schedule = await self._change(name, lambda stored: stored.resume(name, by))
        self.wake()
        return schedule

    async def run(self, name: str, by: By) -> Task:
        """Enqueues the task of a schedule now, also of a paused one, and returns it. Its next time stays.
        Within a unique window of its type, the task that is there is returned."""
        schedule = await self.get(check_name("name", name))
        resources = await self._sessions.open()
        submission = await self._submission(schedule, resources.store.now())
        inserted = await resources.store.schedules.run(name, submission, by)
        resources.bus.publish(WORK)
        resources.bus.publish(FEED)
        return (await resources.store.reads.get([inserted.task_id]))[inserted.task_id]

    async def plan(self, name: str, since: str, until: str | None = None) -> Backfill:
        """The past times of a schedule from `since` on and before `until` (now), at most `TIMES_MAX`. Both
        are in ISO format, without a zone in that of the schedule, or ages such as `2d`."""
        schedule = await self.get(check_name("name", name))
        resources = await self._sessions.open()
        now = resources.store.now()
        begin = moment_of(since, schedule.timezone, now)
        end = now if until is None else moment_of(until, schedule.timezone, now)
        return Backfill(schedule, (begin, end), past_fires(schedule, begin, end, now))

    async def backfill(self, plan: Backfill, by: By) -> Sequence[Inserted]:
        """Enqueues a task for each time. A time that was backfilled before keeps its task. The next time of
        the schedule stays."""
        schedule = plan.schedule
        resources = await self._sessions.open()
        now = resources.store.now()
        submissions = [await self._submission(schedule, now, at=at, once=True) for at in plan.times]
        try:
            inserted = await resources.store.schedules.backfill(schedule.name, submissions, by)
        except IdempotencyConflict as error:
            raise IdempotencyConflict(
                f"schedule '{schedule.name}' was another when a time of this range was backfilled, so leave "
                f"that time out: {error}"
            ) from None
        resources.bus.publish(WORK)
        resources.bus.publish(FEED)
        return inserted

    async def submission(self, schedule: Schedule, now: float) -> Submission:
        """Makes the task of a due schedule, with the configuration of its type. Raises UnknownType if
        neither this process nor the store has the type."""
        return await self._submission(schedule, now, at=schedule.next_at)

    async def _submission(
        self, schedule: Schedule, now: float, *, at: float | None = None, once: bool = False
    ) -> Submission:
        """`at`: the time that the task is for. `once`: that time has one task, whatever the unique window of
        the type."""
        resources = await self._sessions.open()
        metadata: dict[str, object] = {"schedule": schedule.name}
        if at is not None:
            metadata["scheduled_for"] = time_text(at)
        request = self._types.request(
            await self._types.find(resources.store, schedule.type),
            type=schedule.type,
            payload=loads(schedule.payload_json),
            options=EnqueueOptions(
                schedule.queue,
                Priority(schedule.priority),
                metadata=metadata,
                idempotency_key=fire_key(schedule.name, at) if at is not None and once else None,
                project=schedule.project,
                unique=None if once else UNSET,
            ),
        )
        return submit(request, task_id=resources.ids.task(now), now=now, id_given=False)

    async def _change(self, name: str, change: Callable[[ScheduleStore], Awaitable[T]]) -> T:
        check_name("name", name)
        resources = await self._sessions.open()
        answer = await change(resources.store.schedules)
        resources.bus.publish(FEED)
        return answer

    def wake(self) -> None:
        """Makes the scheduler of this process look at once."""
        self._sessions.call_engine(lambda engine: engine.scheduler.wake())


async def put_schedule(resources: Resources, schedule: Schedule) -> None:
    """Stores a schedule of the code, and hints at the new event."""
    await resources.store.schedules.put(schedule, actor=CODE)
    resources.bus.publish(FEED)
