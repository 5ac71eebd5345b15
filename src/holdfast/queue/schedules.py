"""Cron schedules of a queue. They live in the store and fire while any node of it runs."""

from __future__ import annotations

from holdfast.core.codec import loads
from holdfast.core.schedule import Schedule, next_fire
from holdfast.core.submit import Submission, encode_payload, submit
from holdfast.core.task import Priority
from holdfast.engine.handlers import TypeConfig
from holdfast.queue.backend import Backend
from holdfast.queue.produce import Produce


class Schedules(Produce):
    """The part of a queue that enqueues by the clock."""

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
        backend = self._here.store_and_bus
        return submit(request, task_id=backend.ids.task(now), now=now)

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
        backend = await self._open()
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
        self._tell_engine(lambda engine: engine.scheduler.wake())

    async def unschedule(self, name: str) -> None:
        """Removes a schedule; tasks that it made stay."""
        backend = await self._open()
        await backend.store.execute("drop_schedule", name=name)

    async def get_schedules(self) -> list[Schedule]:
        """All schedules of the store, by name."""
        backend = await self._open()
        return [Schedule(*row) for row in await backend.store.query("schedules")]
