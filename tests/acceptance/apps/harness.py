"""Controls worker processes, and checks their events in the feed."""

from __future__ import annotations

import asyncio
import json
import signal
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from typing import Any, Self

from holdfast import Event, TaskQueue
from proof.lab.processes import start_module

SECONDS = 20.0


class Worker:
    """A worker process, which is killed at the end of the test."""

    def __init__(self, url: str, *types: str, **settings: Any) -> None:
        self._arguments = (url, json.dumps(settings), *types)
        self._process: asyncio.subprocess.Process | None = None
        self._stop_sent = False

    @property
    def process(self) -> asyncio.subprocess.Process:
        assert self._process is not None, "the worker was not started"
        return self._process

    @property
    def pid(self) -> int:
        return self.process.pid

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.kill()

    async def start(self) -> None:
        self._stop_sent = False
        self._process = await start_module("tests.acceptance.apps.worker", *self._arguments)
        assert await self.line() == "ready"

    async def line(self) -> str:
        """Reads the next line of its output. '' if it has ended."""
        assert self.process.stdout is not None
        async with asyncio.timeout(SECONDS):
            return (await self.process.stdout.readline()).decode().strip()

    async def kill(self) -> None:
        """Sends SIGKILL, and waits until the process has ended."""
        if self.process.returncode is None:
            self.process.kill()
        await self.ended()

    async def ended(self) -> int:
        async with asyncio.timeout(SECONDS):
            await self.process.communicate()
        assert self.process.returncode is not None
        return self.process.returncode

    async def stop(self) -> dict[str, int]:
        """Sends SIGTERM, waits until the process has ended, and returns its statistics."""
        await self.begin_to_stop()
        word, _, rest = (await self.line()).partition(" ")
        assert word == "stopped", f"the worker said '{word} {rest}'"
        assert await self.ended() == 0
        statistics: dict[str, int] = json.loads(rest)
        return statistics

    async def begin_to_stop(self) -> None:
        if not self._stop_sent:
            self._stop_sent = True
            self.process.send_signal(signal.SIGTERM)
            assert await self.line() == "stopping"

    def freeze(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self.process.send_signal(signal.SIGCONT)


class Feed:
    """Reads the feed of a queue from its beginning, and waits for new events."""

    ENDS = ("task.completed", "task.dead", "task.aborted")

    def __init__(self, queue: TaskQueue) -> None:
        self._events = queue.events()
        self.seen: list[Event] = []
        self.counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
        """The number of events by kind and task."""

    async def until(self, enough: Callable[[], bool], seconds: float = SECONDS) -> None:
        async with asyncio.timeout(seconds):
            while not enough():
                event = await anext(self._events)
                self.seen.append(event)
                self.counts[event.kind][event.task_id] += 1

    async def first(self, kind: str, **fields: object) -> Event:
        """Returns the first event of a kind with these fields. Waits for it if needed."""

        def matching() -> list[Event]:
            return [e for e in self.seen if e.kind == kind and matches(e, fields)]

        await self.until(lambda: bool(matching()))
        return matching()[0]

    async def ended(self, ids: Iterable[str]) -> None:
        """Waits until these tasks have ended, with any outcome."""
        for task_id in set(ids):
            await self.until(lambda t=task_id: any(self.counts[k][t] for k in self.ENDS))  # type: ignore[misc]

    async def completed(self, count: int) -> None:
        await self.until(lambda: len(self.counts["task.completed"]) >= count)

    async def close(self) -> None:
        await self._events.aclose()  # type: ignore[attr-defined]


async def eventually(
    condition: Callable[[], bool], seconds: float = SECONDS, look: float = 0.005
) -> None:
    """Polls a condition of this process that has no event."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(look)


def matches(event: Event, fields: dict[str, object]) -> bool:
    data = {"task_id": event.task_id, "type": event.type, **event.data}
    return all(data.get(name) == value for name, value in fields.items())


async def whole_feed(queue: TaskQueue) -> list[Event]:
    """Reads all events."""
    return [event async for event in queue.events(follow=False)]


def assert_contiguous(events: list[Event]) -> None:
    offsets = [event.position.offset for event in events]
    assert offsets == list(range(offsets[0], offsets[0] + len(offsets)))


async def assert_each_ended_once(queue: TaskQueue, ids: list[str]) -> None:
    """Checks by the feed and by the counters that each task has completed exactly once."""
    events = await whole_feed(queue)
    assert_contiguous(events)
    enqueued = Counter(e.task_id for e in events if e.kind == "task.enqueued")
    completed = Counter(e.task_id for e in events if e.kind == "task.completed")
    assert enqueued == Counter(ids)
    assert completed == Counter(ids)
    stats = await queue.get_stats()
    assert (stats.pending, stats.processing, stats.completed) == (0, 0, len(ids))
