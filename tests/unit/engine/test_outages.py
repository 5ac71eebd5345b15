"""Outages of the store, group commit, and hints within a process."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from holdfast import Status, Task, TaskQueue
from holdfast.bus.local import LocalBus
from holdfast.clock import VirtualClock
from holdfast.engine.loop import OUTAGE_SECONDS, Loop
from holdfast.errors import DuplicateTask, StoreUnavailable
from holdfast.queue.batcher import Batcher
from holdfast.testing import harness


class Failing:
    """A verb of the store that fails a number of times before it works again."""

    def __init__(self, verb: Any, times: int) -> None:
        self._verb = verb
        self.left = times

    async def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.left > 0:
            self.left -= 1
            raise StoreUnavailable("away for a moment")
        return await self._verb(*args, **kwargs)


@pytest.mark.parametrize(
    "verb", ["finish", "claim", "heartbeat", "upkeep.next", "backlog.first_due", "reads.schedules"]
)
async def test_every_loop_survives_an_outage(
    queue: TaskQueue, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs: list[str] = []
    async with harness(queue) as h:

        async def work(task: Task) -> str:
            runs.append(task.id)
            return "done"

        queue.register_handler("work", work)
        store = (await queue.open()).store
        handle = await queue.enqueue("work")
        part, _, name = verb.rpartition(".")
        owner = getattr(store, part) if part else store
        failing = Failing(getattr(owner, name), 3)
        with monkeypatch.context() as patch:
            patch.setattr(type(owner), name, failing)
            for _ in range(5):
                for loop in h.engine.loops:
                    await loop.step()
                for _ in range(20):
                    await asyncio.sleep(0)
        assert failing.left == 0
        await h.advance(1)
        task = await handle.get()
        assert (task.status, task.result, task.attempts) == (Status.COMPLETED, "done", 1)
        assert runs == [handle]
        assert h.engine.supervisor.restarts == 0


async def test_tries_during_an_outage_back_off(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Away(Loop):
        name = "away"
        left = 8

        async def tick(self) -> float:
            self.left -= 1
            if self.left > 0:
                raise StoreUnavailable("away")
            return 42.0

    loop = Away(VirtualClock())
    caplog.set_level("INFO")
    pauses = [await loop.step() for _ in range(8)]
    assert pauses == [*OUTAGE_SECONDS, OUTAGE_SECONDS[-1], 42.0]
    assert loop.outages == 0
    assert caplog.text.count("the store is unavailable") == 1
    assert "the store is back after 7 tries" in caplog.text


def one_of(flush: Callable[[list[int]], Awaitable[list[int]]]) -> Callable[[int], Awaitable[int]]:
    """Writes a single item as a batch of one."""

    async def one(item: int) -> int:
        return (await flush([item]))[0]

    return one


async def test_concurrent_items_are_written_together() -> None:
    batches: list[list[int]] = []
    gate = asyncio.Event()

    async def flush(items: list[int]) -> list[int]:
        batches.append(items)
        if len(batches) == 1:
            await gate.wait()
        return [10 * item for item in items]

    batcher: Batcher[int, int] = Batcher(one_of(flush), flush, 4)
    calls = [asyncio.create_task(batcher.put(n)) for n in range(10)]
    for _ in range(5):
        await asyncio.sleep(0)
    gate.set()
    assert await asyncio.gather(*calls) == [10 * n for n in range(10)]
    assert all(len(batch) <= 4 for batch in batches)
    assert [n for batch in batches for n in batch] == list(range(10))


async def test_callers_that_return_together_stay_in_one_batch() -> None:
    """Otherwise two batches alternate, and each round of the callers takes two commits."""
    batches: list[int] = []

    async def flush(items: list[int]) -> list[int]:
        batches.append(len(items))
        await asyncio.sleep(0)
        return items

    batcher: Batcher[int, int] = Batcher(one_of(flush), flush, 100)

    async def caller() -> None:
        for n in range(5):
            await batcher.put(n)

    await asyncio.gather(*(caller() for _ in range(8)))
    # The first item is written at once. From the third batch on all callers are together.
    assert batches == [1, 7, 8, 8, 8, 8]


async def test_a_failed_batch_raises_only_for_its_callers() -> None:
    async def flush(items: list[int]) -> list[int]:
        await asyncio.sleep(0)
        if 1 in items:
            raise StoreUnavailable("away")
        return items

    batcher: Batcher[int, int] = Batcher(one_of(flush), flush, 2)
    answers = await asyncio.gather(*(batcher.put(n) for n in range(6)), return_exceptions=True)
    # The first item is written at once and alone, the next two together.
    failed = [isinstance(answer, StoreUnavailable) for answer in answers]
    assert failed == [False, True, True, False, False, False]
    assert [answers[0], *answers[3:]] == [0, 3, 4, 5]
    assert await batcher.put(8) == 8


@pytest.mark.parametrize("wrong", [set(), {5}, {1, 2, 8}, set(range(1, 9))])
async def test_a_refused_item_does_not_fail_the_others(wrong: set[int]) -> None:
    """A batch is written whole or not at all."""
    written: list[int] = []

    async def flush(items: list[int]) -> list[int]:
        await asyncio.sleep(0)
        if found := wrong.intersection(items):
            raise DuplicateTask(f"item {min(found)}")
        written.extend(items)
        return items

    batcher: Batcher[int, int] = Batcher(one_of(flush), flush, 100)
    answers = await asyncio.gather(*(batcher.put(n) for n in range(9)), return_exceptions=True)
    assert written == [n for n in range(9) if n not in wrong]
    for n, answer in enumerate(answers):
        assert str(answer) == (f"item {n}" if n in wrong else str(n))


@pytest.mark.parametrize("turns", range(6))
@pytest.mark.parametrize("victim", [0, 1, 4])
async def test_a_cancelled_caller_leaves_no_other_waiting(victim: int, turns: int) -> None:
    """Whichever caller is cancelled, and at any time, all others get their answers."""
    gate = asyncio.Event()

    async def flush(items: list[int]) -> list[int]:
        await gate.wait()
        return items

    batcher: Batcher[int, int] = Batcher(one_of(flush), flush, 3)
    calls = [asyncio.create_task(batcher.put(n)) for n in range(7)]
    for _ in range(turns):
        await asyncio.sleep(0)
    calls[victim].cancel()
    await asyncio.sleep(0)
    gate.set()
    async with asyncio.timeout(5):
        answers = await asyncio.gather(*calls, return_exceptions=True)
        assert await batcher.put(8) == 8
    assert isinstance(answers.pop(victim), asyncio.CancelledError)
    assert answers == [n for n in range(7) if n != victim]


async def test_hints_reach_all_listeners() -> None:
    bus = LocalBus()
    hints: list[str] = []
    stop = bus.subscribe(hints.append)
    bus.publish("work")
    stop()
    stop()
    bus.publish("feed")
    assert hints == ["work"]
    assert bus.mode().pushing
