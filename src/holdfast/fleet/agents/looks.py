"""Looks at what hosts have to do: those that are asked for at the same time share a read.

Promises: a look begins after it was asked for, so it sees what was committed before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeAlias

from holdfast.clock import Clock
from holdfast.fleet.agents.agents import HostNews

PAGE: Final = 1_000
"""Hosts of one read."""
Read: TypeAlias = Callable[[Sequence[str]], Awaitable[list[HostNews]]]


class Looks:
    """The reads of one process."""

    def __init__(self, read: Read, clock: Clock, *, gather_seconds: float) -> None:
        self._read = read
        self._clock = clock
        self._gather_seconds = gather_seconds
        self._waiting: dict[str, list[asyncio.Future[HostNews | None]]] = {}
        self._full = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def look(self, host_id: str) -> HostNews | None:
        """What one host has to do. None: it has no agent."""
        future: asyncio.Future[HostNews | None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(host_id, []).append(future)
        if len(self._waiting) >= PAGE:
            self._full.set()
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name="holdfast-agent-looks")
        return await future

    async def look_at(self, hosts: Sequence[str]) -> list[HostNews]:
        """The same for many."""
        found: list[HostNews] = []
        for start in range(0, len(hosts), PAGE):
            found += await self._read(hosts[start : start + PAGE])
        return found

    async def _run(self) -> None:
        if self._gather_seconds:
            await self._clock.wait(self._full, self._gather_seconds)
        while self._waiting:
            asked, self._waiting = self._waiting, {}
            self._full.clear()
            try:
                found = {news.host_id: news for news in await self.look_at(list(asked))}
            except Exception as error:
                _end(asked, error)
            else:
                for host_id, futures in asked.items():
                    for future in futures:
                        if not future.done():
                            future.set_result(found.get(host_id))


def _end(asked: dict[str, list[asyncio.Future[HostNews | None]]], error: Exception) -> None:
    for futures in asked.values():
        for future in futures:
            if not future.done():
                future.set_exception(error)
