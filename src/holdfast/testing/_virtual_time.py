"""The harness: a queue with an in-memory store and a clock that the test controls.

Promises: handlers, rules and engine are those of the queue; only the store and the clock are replaced,
until the block ends. Never: touches the database of the queue.
"""

from __future__ import annotations

import asyncio
import random  # noqa: TID251 - seeded
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from holdfast.app import resources_for
from holdfast.clock import VirtualClock
from holdfast.core import codec
from holdfast.core.ids import Ids
from holdfast.core.task import Status, Task
from holdfast.engine.engine import Engine
from holdfast.queue.function import TaskFunction
from holdfast.queue.parts import Parts
from holdfast.queue.queue import Queue
from holdfast.testing._drive import Driver

PAGE = 500
ANY: Any = object()
START = 1_800_000_000.0


class Harness:
    """Controls a queue in virtual time."""

    def __init__(self, queue: Queue, engine: Engine, driver: Driver, clock: VirtualClock) -> None:
        self.queue = queue
        self.engine = engine
        self.clock = clock
        self._driver = driver

    def now(self) -> float:
        """The virtual time, in seconds since the epoch."""
        return self.clock.now()

    async def run_until_idle(self) -> None:
        """Runs all work that is due now, and the work it creates, without moving the time."""
        await self._driver.run_until_idle()

    async def advance(self, seconds: float) -> None:
        """Advances time: retries, delays, schedules, leases and timeouts take effect at their times."""
        if seconds < 0:
            raise ValueError(f"time cannot go back by {-seconds:g} s")
        await self._driver.advance_to(self.clock.now() + seconds)

    async def tasks(
        self,
        type: str | TaskFunction[..., Any] | None = None,
        *,
        status: Status | str | None = None,
    ) -> list[Task]:
        """The tasks of a type, oldest first."""
        tasks: list[Task] = []
        after: str | None = None
        while page := await self.queue.find_tasks(
            type=_type(type), status=status, after=after, limit=PAGE
        ):
            tasks += page
            after = page[-1].id
        return tasks[::-1]

    async def assert_enqueued(
        self,
        type: str | TaskFunction[..., Any],
        payload: Any = ANY,
        *,
        count: int | None = None,
        status: Status | str | None = None,
    ) -> list[Task]:
        """Asserts that `count` matching tasks were enqueued, or at least one without `count`. Returns them,
        oldest first. A dict as payload matches when the task's payload has these fields."""
        matching = await self._matching(type, payload, status)
        if len(matching) == count or (count is None and matching):
            return matching
        expected = "at least one task" if count is None else f"{count} tasks"
        condition = "" if payload is ANY else f" with payload {payload!r}"
        others = await self.tasks()
        listing = (
            "\n".join(f"  {t.type} {t.payload_json} ({t.status})" for t in others) or "  nothing"
        )
        raise AssertionError(
            f"expected {expected} of type '{_type(type)}'{condition}, found {len(matching)}; "
            f"there is:\n{listing}"
        )

    async def refute_enqueued(self, type: str | TaskFunction[..., Any], payload: Any = ANY) -> None:
        """Asserts that no such task was enqueued."""
        matching = await self._matching(type, payload, None)
        if matching:
            raise AssertionError(
                f"expected no task of type '{_type(type)}', found: "
                + ", ".join(f"{task.id} {task.payload_json}" for task in matching)
            )

    async def _matching(
        self, type: str | TaskFunction[..., Any], payload: Any, status: Status | str | None
    ) -> list[Task]:
        tasks = await self.tasks(type, status=status)
        return [task for task in tasks if payload is ANY or _matches(task.payload, payload)]


@asynccontextmanager
async def harness(
    queue: Queue, *, start: float = START, seed: int = 0, **settings: Any
) -> AsyncIterator[Harness]:
    """Runs the queue in memory and in virtual time until the block ends. Settings are those of `TaskQueue`;
    `seed` determines the ids."""
    if queue.is_running():
        raise RuntimeError("the queue is running: use the harness instead of starting it")
    clock = VirtualClock(start)
    engines: list[Engine] = []

    async def prepare(engine: Engine) -> None:
        await engine.prepare()
        engines.append(engine)

    parts = queue.parts
    queue.parts = Parts(
        resources_for("sqlite://", clock, inline=True, ids=Ids(random.Random(seed))),
        queue.settings,
        queue.definitions,
        meter=queue.parts.meter,
        start_engine=prepare,
    )
    try:
        await queue.start(**settings)
        resources = await queue.open()
        driver = Driver(engines[0], resources.store, clock)
        queue.parts.sessions.here.waiters.watch = driver.watch
        try:
            yield Harness(queue, engines[0], driver, clock)
        finally:
            await _stop(queue, engines[0], clock)
    finally:
        queue.parts = parts


async def _stop(queue: Queue, engine: Engine, clock: VirtualClock) -> None:
    """Stops as in production. Steps the completer and advances the clock while the stop waits."""
    engine.dispatcher.stopping = True
    stopping = asyncio.create_task(queue.stop())
    while not stopping.done():
        for _ in range(20):
            await asyncio.sleep(0)
        await engine.completer.step()
        if not stopping.done() and (wake := clock.next_wake()) is not None:
            clock.set(wake)
    await stopping


def _type(type: str | TaskFunction[..., Any] | None) -> str | None:
    return type.type if isinstance(type, TaskFunction) else type


def _matches(payload: Any, expected: Any) -> bool:
    if isinstance(expected, dict) and isinstance(payload, dict):
        return all(
            key in payload and _matches(payload[key], value) for key, value in expected.items()
        )
    return bool(payload == codec.loads(codec.dumps(expected)))
