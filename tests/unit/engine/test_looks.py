"""Readers of the feed that wait at the same position: one look serves all of them."""

from __future__ import annotations

import asyncio

from holdfast import TaskQueue
from holdfast.clock import VirtualClock
from holdfast.core.event import Event, Position
from holdfast.queue.looks import Looks
from holdfast.testing import harness

END = Position("e", 5)


class Reader:
    """One reader that waits at the end of a feed."""

    def __init__(self, looks: Looks, clock: VirtualClock, feed: list[str]) -> None:
        self.looked = 0
        self.stir = asyncio.Event()
        self._feed = feed
        self.task = asyncio.create_task(
            looks.wait(
                *(END, self.stir, self._look), clock=clock, seconds=1.0, is_over=lambda: False
            )
        )

    async def _look(self) -> list[str]:
        self.looked += 1
        return list(self._feed)


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def three(clock: VirtualClock, feed: list[str]) -> list[Reader]:
    looks = Looks()
    readers = [Reader(looks, clock, feed) for _ in range(3)]
    await settle()
    return readers


async def pass_seconds(clock: VirtualClock, seconds: float) -> None:
    clock.set(clock.now() + seconds)
    await settle()


async def test_one_of_the_readers_that_wait_looks_and_wakes_the_others() -> None:
    clock, feed = VirtualClock(), list[str]()
    readers = await three(clock, feed)
    for _ in range(4):
        await pass_seconds(clock, 1.0)
    assert [reader.looked for reader in readers] == [4, 0, 0]
    feed.append("event")
    await pass_seconds(clock, 1.0)
    assert [reader.task.result() for reader in readers] == [["event"], [], []]


async def test_a_hint_wakes_each_reader() -> None:
    clock = VirtualClock()
    readers = await three(clock, [])
    for reader in readers:
        reader.stir.set()
    await settle()
    assert readers[0].looked == 1
    assert not readers[0].task.done(), "it has found nothing and goes on"
    assert [reader.task.done() for reader in readers[1:]] == [True, True], "they look themselves"
    readers[0].task.cancel()


async def test_the_end_of_the_first_reader_wakes_the_others() -> None:
    readers = await three(VirtualClock(), [])
    readers[0].task.cancel()
    await settle()
    assert all(reader.task.done() for reader in readers)


async def test_all_readers_of_a_queue_get_each_event(queue: TaskQueue) -> None:
    heard: dict[str, list[str]] = {"a": [], "b": [], "c": []}

    @queue.task
    async def work() -> None: ...

    async with harness(queue) as h:
        for kinds in heard.values():

            def hear(event: Event, kinds: list[str] = kinds) -> None:
                kinds.append(event.kind)

            queue.on_event(hear)
        await h.advance(3)
        await work.enqueue()
        await h.advance(3)
    ended = [kinds.count("task.completed") for kinds in heard.values()]
    assert ended == [1, 1, 1]
    assert heard["a"] == heard["b"] == heard["c"]
