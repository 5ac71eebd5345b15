"""Group commit: each item is written once and answered. Two batches are written at once while writes are
quick."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from holdfast.errors import InvalidInput
from holdfast.queue.batcher import QUICK_SECONDS, SPLIT_MIN, Batcher

CALLERS = 2 * SPLIT_MIN


class Store:
    """Writes batches when the test lets it."""

    def __init__(self, write_seconds: float = 0.0) -> None:
        self.now = 0.0
        self.write_seconds = write_seconds
        self.written: list[int] = []
        self.sizes: list[int] = []
        self.at_once = 0
        self.most_at_once = 0
        self.refused: set[int] = set()

    def monotonic(self) -> float:
        return self.now

    async def one(self, item: int) -> int:
        return (await self.many([item]))[0]

    async def many(self, items: list[int]) -> list[int]:
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        for _ in range(5):  # turns of the event loop, as a store takes some
            await asyncio.sleep(0)
        self.now += self.write_seconds
        self.at_once -= 1
        if self.refused.intersection(items):
            raise InvalidInput("refused")
        self.sizes.append(len(items))
        self.written += items
        return [-item for item in items]


async def in_turn(batcher: Batcher[int, int], items: range) -> None:
    for item in items:
        assert await batcher.put(item) == -item


async def callers(batcher: Batcher[int, int], count: int = CALLERS, each: int = 20) -> None:
    await asyncio.gather(*(in_turn(batcher, range(n * each, (n + 1) * each)) for n in range(count)))


def batcher_of(
    store: Store, clock: Callable[[], float] | None, size: int = 500
) -> Batcher[int, int]:
    return Batcher(store.one, store.many, size, monotonic=clock)


async def test_without_a_clock_all_callers_share_one_batch_at_a_time() -> None:
    store = Store()
    await callers(batcher_of(store, None))
    assert sorted(store.written) == list(range(CALLERS * 20))
    assert store.most_at_once == 1
    assert set(store.sizes[2:-1]) <= {CALLERS, CALLERS - 1, 1}


async def test_many_callers_of_a_quick_store_are_two_batches_in_turn() -> None:
    store = Store()
    await callers(batcher_of(store, store.monotonic))
    assert sorted(store.written) == list(range(CALLERS * 20))
    assert store.most_at_once == 2
    assert set(store.sizes[4:-4]) <= set(range(CALLERS // 2 - 2, CALLERS // 2 + 3))


async def test_callers_of_a_slow_store_stay_in_one_batch() -> None:
    store = Store(write_seconds=QUICK_SECONDS)
    await callers(batcher_of(store, store.monotonic))
    assert sorted(store.written) == list(range(CALLERS * 20))
    assert store.most_at_once == 1


async def test_few_callers_stay_in_one_batch() -> None:
    store = Store()
    await callers(batcher_of(store, store.monotonic), count=SPLIT_MIN // 2)
    assert store.most_at_once == 1


@pytest.mark.parametrize("has_clock", [False, True])
async def test_no_batch_is_larger_than_the_bound(has_clock: bool) -> None:
    store = Store()
    await callers(batcher_of(store, store.monotonic if has_clock else None, size=7))
    assert sorted(store.written) == list(range(CALLERS * 20))
    assert max(store.sizes) == 7


@pytest.mark.parametrize("has_clock", [False, True])
async def test_a_refused_item_and_a_cancelled_caller_do_not_hold_up_the_others(
    has_clock: bool,
) -> None:
    store = Store()
    batcher = batcher_of(store, store.monotonic if has_clock else None)
    store.refused = {7, 1_000 + CALLERS - 1}
    for first in (0, 1_000):
        items = range(first, first + CALLERS)
        putting = [asyncio.create_task(batcher.put(item)) for item in items]
        await asyncio.sleep(0)
        putting[9].cancel()
        answers = await asyncio.gather(*putting, return_exceptions=True)
        for item, answer in zip(items, answers, strict=True):
            if item in store.refused:
                assert isinstance(answer, InvalidInput)
            elif item == first + 9:
                assert isinstance(answer, asyncio.CancelledError)
            else:
                assert answer == -item
    assert await batcher.put(5_000) == -5_000


async def test_an_item_whose_caller_gave_up_before_its_batch_is_not_written() -> None:
    """A caller with a time limit repeats its request while the store answers slowly."""
    store = Store()
    batcher = batcher_of(store, store.monotonic)
    first = asyncio.create_task(batcher.put(-1))
    await asyncio.sleep(0)
    for _ in range(3):
        impatient = [asyncio.create_task(batcher.put(item)) for item in range(CALLERS)]
        await asyncio.sleep(0)
        for caller in impatient:
            caller.cancel()
        await asyncio.wait(impatient)
    last = asyncio.create_task(batcher.put(CALLERS))
    assert (await first, await last) == (1, -CALLERS)
    assert store.written == [-1, CALLERS]


async def test_a_batcher_goes_on_when_all_callers_have_given_up() -> None:
    store = Store()
    batcher = batcher_of(store, store.monotonic)
    first, second = (asyncio.create_task(batcher.put(item)) for item in (1, 2))
    await asyncio.sleep(0)
    second.cancel()
    assert await first == -1
    assert await batcher.put(3) == -3
    assert store.written == [1, 3]
