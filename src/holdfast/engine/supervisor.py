"""Restarts the parts of the engine that die.

Promises: a part that dies is restarted after a growing pause. A part that dies more often than the budget
allows within the window is given up, and the owner of the supervisor is notified (escalation).
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

from holdfast.clock import Clock
from holdfast.errors import EngineFailed

RESTARTS_MAX: Final = 10
WINDOW_SECONDS: Final = 60.0
STOP_SECONDS_MAX: Final = 5.0
"""A stop does not wait longer for a part that ignores its cancellation."""
PAUSE_SECONDS: Final = 0.05
PAUSE_SECONDS_MAX: Final = 5.0
log = logging.getLogger("holdfast.engine")

Part = Callable[[], Awaitable[None]]


class Supervisor:
    """Runs named parts as tasks of the event loop."""

    def __init__(
        self,
        clock: Clock,
        escalate: Callable[[EngineFailed], None],
        *,
        restarts_max: int = RESTARTS_MAX,
        window_seconds: float = WINDOW_SECONDS,
    ) -> None:
        self._clock = clock
        self._escalate = escalate
        self._restarts_max = restarts_max
        self._window_seconds = window_seconds
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self.restarts = 0

    def start(self, name: str, part: Part) -> asyncio.Task[None]:
        """Runs the part until it returns or `stop` is called."""
        task = asyncio.create_task(self._keep_running(name, part), name=f"holdfast-{name}")
        self._tasks[name] = task
        task.add_done_callback(lambda _: self._tasks.pop(name, None))
        return task

    def running(self) -> list[str]:
        return sorted(self._tasks)

    async def stop(self, *names: str) -> None:
        """Cancels these parts, or all parts. A second call has no effect."""
        tasks = [t for name, t in list(self._tasks.items()) if not names or name in names]
        for task in tasks:
            task.cancel()
        if not tasks:
            return
        ended, stuck = await asyncio.wait(tasks, timeout=STOP_SECONDS_MAX)
        for task in ended:
            if not task.cancelled():
                task.exception()  # Retrieved, so that asyncio does not log it as unhandled.
        if stuck:
            stuck_names = ", ".join(sorted(task.get_name() for task in stuck))
            log.error("left behind, since they ignore their cancellation: %s", stuck_names)

    async def _keep_running(self, name: str, part: Part) -> None:
        deaths: deque[float] = deque()
        while True:
            try:
                await part()
                return
            except asyncio.CancelledError:
                raise
            except Exception as error:
                now = self._clock.monotonic()
                deaths.append(now)
                while deaths and now - deaths[0] > self._window_seconds:
                    deaths.popleft()
                if len(deaths) > self._restarts_max:
                    log.exception("%s died %d times, giving up", name, len(deaths))
                    self._escalate(_given_up(name, len(deaths), self._window_seconds, error))
                    return
                log.exception("%s died, starting it again", name)
            self.restarts += 1
            await self._clock.sleep(min(PAUSE_SECONDS * 2 ** (len(deaths) - 1), PAUSE_SECONDS_MAX))


def _given_up(name: str, deaths: int, window: float, error: Exception) -> EngineFailed:
    failure = EngineFailed(
        f"{name} died {deaths} times within {window:g} s and was given up; the last error was "
        f"{error!r}: fix its cause and restart"
    )
    failure.__cause__ = error
    return failure
