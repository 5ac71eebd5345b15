"""The harness: a queue with its store in memory and its time in the test's hands.

Promises: the queue's own handlers, rules and engine; only the store and the clock are exchanged, and
given back at the end. Never: touches the database that the queue was made for.
"""

from __future__ import annotations

import asyncio
import random  # noqa: TID251 - seeded
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from holdfast.app import backend_for
from holdfast.clock import VirtualClock
from holdfast.core import codec
from holdfast.core.ids import Ids
from holdfast.core.task import Status, Task
from holdfast.engine.engine import Engine
from holdfast.queue.define import TaskFunction
from holdfast.queue.queue import Queue
from holdfast.testing.drive import Driver

PAGE = 500
ANY: Any = object()
START = 1_800_000_000.0


class Harness:
    """What a test does with a queue in virtual time."""

    def __init__(self, queue: Queue, engine: Engine, driver: Driver, clock: VirtualClock) -> None:
        self.queue = queue
        self.engine = engine
        self.clock = clock
        self._driver = driver

    def now(self) -> float:
        """The virtual time, in seconds since the epoch."""
        return self.clock.now()

    async def run_until_idle(self) -> None:
        """Runs everything that is due now, and what follows from it, without moving the time."""
        await self._driver.run_until_idle()

    async def advance(self, seconds: float) -> None:
        """Lets time pass: retries, delays, schedules, leases and timeouts happen at their moments."""
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
        found: list[Task] = []
        after: str | None = None
        while page := await self.queue.find_tasks(
            type=_type(type), status=status, after=after, limit=PAGE
        ):
            found += page
            after = page[-1].id
        return found[::-1]

    async def assert_enqueued(
        self,
        type: str | TaskFunction[..., Any],
        payload: Any = ANY,
        *,
        count: int | None = None,
        status: Status | str | None = None,
    ) -> list[Task]:
        """That tasks like this were enqueued; all of them, oldest first. A dict as payload needs to
        match in the fields that it has. Without `count`, at least one."""
        matching = await self._matching(type, payload, status)
        if len(matching) == count or (count is None and matching):
            return matching
        wanted = "at least one task" if count is None else f"{count} tasks"
        said = "" if payload is ANY else f" with payload {payload!r}"
        others = await self.tasks()
        there = (
            "\n".join(f"  {t.type} {t.payload_json} ({t.status})" for t in others) or "  nothing"
        )
        raise AssertionError(
            f"expected {wanted} of type '{_type(type)}'{said}, found {len(matching)}; there is:\n{there}"
        )

    async def refute_enqueued(self, type: str | TaskFunction[..., Any], payload: Any = ANY) -> None:
        """That no such task was enqueued."""
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
    """The queue in memory and in virtual time, until the block ends. Settings are those of
    `TaskQueue`; `seed` decides the ids."""
    if queue.is_running():
        raise RuntimeError("the queue is running: use the harness instead of starting it")
    clock = VirtualClock(start)
    saved = dict(vars(queue))
    engines: list[Engine] = []

    async def run_engine(engine: Engine) -> None:
        await engine.prepare()
        engines.append(engine)

    fresh: dict[str, Any] = {
        "_make_backend": backend_for("sqlite://", clock, inline=True, ids=Ids(random.Random(seed))),
        "_run_engine": run_engine,
        "_sessions": {},
        "_known": {},
        "_types": {},
        "_types_at": float("-inf"),
    }
    vars(queue).update(fresh)
    try:
        await queue.start(**settings)
        backend = await queue.open()
        driver = Driver(engines[0], backend.store, clock)
        try:
            yield Harness(queue, engines[0], driver, clock)
        finally:
            await _stop(queue, engines[0], clock)
    finally:
        vars(queue).clear()
        vars(queue).update(saved)


async def _stop(queue: Queue, engine: Engine, clock: VirtualClock) -> None:
    """Stops as in production; whatever the stop waits for is driven, and the time that it takes passes."""
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


def _matches(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, dict) and isinstance(found, dict):
        return all(key in found and _matches(found[key], value) for key, value in wanted.items())
    return bool(found == codec.loads(codec.dumps(wanted)))
