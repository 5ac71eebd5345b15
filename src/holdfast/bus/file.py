"""Hints between processes that share one SQLite file.

Other processes are noticed by the file's data version, which changes with every commit of another
connection; reading it costs microseconds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from holdfast.bus.local import LocalBus
from holdfast.bus.port import FEED, WORK, Mode

WATCH_SECONDS: Final = 0.02


class WatchedBus(LocalBus):
    """A local bus that also hears when somebody else has changed the store."""

    def __init__(self, version: Callable[[], int], seconds: float = WATCH_SECONDS) -> None:
        super().__init__()
        self._version = version
        self._seconds = seconds
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._task = asyncio.create_task(self._watch(), name="holdfast-watch")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    def mode(self) -> Mode:
        return Mode(True, f"the file's version is watched every {self._seconds * 1000:g} ms")

    async def _watch(self) -> None:
        seen = self._version()
        while True:
            await asyncio.sleep(self._seconds)
            current = self._version()
            if current != seen:
                seen = current
                self.publish(WORK)
                self.publish(FEED)
