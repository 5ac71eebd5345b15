"""Schedules of a queue. They live in the store and fire while nodes run.

A schedule made here (`schedule`) is fired by every node that knows its type, until it is removed. One that
a task is defined with (`@task(cron=...)`) belongs to the code: it fires while a node runs whose code has it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from holdfast.bus.port import FEED
from holdfast.core.check import check_name, check_text
from holdfast.core.codec import loads
from holdfast.core.schedule import CODE, Schedule, check_timetable
from holdfast.core.submit import Submission, encode_payload, submit
from holdfast.core.task import Priority
from holdfast.queue.backend import Backend
from holdfast.queue.produce import Produce
from holdfast.store.schedules import ScheduleStore

T = TypeVar("T")


class Schedules(Produce):
    """The part of a queue that enqueues by the clock."""

    async def _scheduled(self, schedule: Schedule, now: float) -> Submission:
        """The task of a schedule that is due, as its type is configured; UnknownType when neither this
        process nor the store knows the type."""
        backend = await self._open()
        request = self._request(
            await self._config(backend, schedule.type),
            type=schedule.type,
            payload=loads(schedule.payload_json),
            queue=schedule.queue,
            priority=schedule.priority,
            metadata={"schedule": schedule.name},
        )
        return submit(request, task_id=backend.ids.task(now), now=now, id_given=False)

    async def _put_schedule(self, backend: Backend, schedule: Schedule, actor: str = CODE) -> None:
        await backend.store.schedules.put(schedule, actor=actor)
        backend.bus.publish(FEED)

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
        actor: str = "api",
    ) -> None:
        """Adds or changes a schedule ('*/5 * * * *', or '@every 30'); it fires while a node of this store
        runs. Conflict when the name belongs to a task that is defined with `cron`."""
        check_name("name", name)
        check_name("actor", actor)
        check_timetable(spec, timezone)
        backend = await self._open()
        config = await self._config(backend, type)
        request = self._request(config, type=type, payload=payload, queue=queue, priority=priority)
        task = submit(request, task_id="check", now=0.0).task
        made = Schedule(
            name,
            type,
            task.queue,
            spec,
            timezone,
            encode_payload(payload),
            int(task.priority),
            0.0,
        )
        await self._put_schedule(backend, made, actor)
        self._look_at_schedules()

    async def unschedule(self, name: str, *, actor: str = "api", reason: str = "") -> None:
        """Removes a schedule; tasks that it made stay. NotFound when there is none. One that belongs to
        the code comes back with the next start of a node that has it: pause it instead."""
        check_text("reason", reason)
        await self._change_schedule(
            name,
            actor,
            lambda schedules: schedules.remove(name, actor=actor, reason=reason),
        )

    async def pause_schedule(self, name: str, *, actor: str = "api", reason: str = "") -> Schedule:
        """Nothing is fired until it is resumed, also after a restart of the code that has it."""
        check_text("reason", reason)
        return await self._change_schedule(
            name,
            actor,
            lambda schedules: schedules.pause(name, actor=actor, reason=reason),
        )

    async def resume_schedule(self, name: str, *, actor: str = "api") -> Schedule:
        """Fires again, from its next time on."""
        resumed = await self._change_schedule(
            name,
            actor,
            lambda schedules: schedules.resume(name, actor=actor),
        )
        self._look_at_schedules()
        return resumed

    async def get_schedules(self) -> list[Schedule]:
        """All schedules of the store, by name."""
        backend = await self._open()
        return await backend.store.reads.schedules()

    async def _change_schedule(
        self, name: str, actor: str, change: Callable[[ScheduleStore], Awaitable[T]]
    ) -> T:
        check_name("name", name)
        check_name("actor", actor)
        backend = await self._open()
        answer = await change(backend.store.schedules)
        backend.bus.publish(FEED)
        return answer

    def _look_at_schedules(self) -> None:
        self._tell_engine(lambda engine: engine.scheduler.wake())
