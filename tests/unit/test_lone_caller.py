"""A caller that comes back and back while no other does may have its write done on the spot."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

from holdfast.store.fast.lone_caller import STREAK_MAX, LoneCaller


async def test_a_caller_that_comes_back_is_alone_until_another_comes() -> None:
    caller = LoneCaller()

    async def write() -> bool:
        return caller.is_back()

    answers = [caller.is_back() for _ in range(3)]
    answers.append(await asyncio.create_task(write()))
    answers.append(caller.is_back())
    assert answers == [False, True, True, False, False]


async def test_a_group_means_that_others_came() -> None:
    caller = LoneCaller()
    caller.is_back()
    caller.others_came()
    assert not caller.is_back()
    assert caller.is_back()


async def test_a_lone_caller_leaves_a_turn_to_others_after_each_streak() -> None:
    caller = LoneCaller()
    caller.is_back()
    left = [caller.is_tiring() for _ in range(3 * STREAK_MAX) if caller.is_back()]
    assert left == ([False] * STREAK_MAX + [True] + [False] * (STREAK_MAX - 1)) + [True] + [
        False
    ] * (STREAK_MAX - 1)


def test_callers_in_two_loops_are_each_alone() -> None:
    """A store is shared by the event loops of a process. Two of them write in turn, each from one caller."""
    caller = LoneCaller()
    turns = [threading.Semaphore(1), threading.Semaphore(0)]

    async def write(own: int) -> list[bool]:
        answers = []
        for _ in range(2 * STREAK_MAX):
            turns[own].acquire()
            answers.append(caller.is_back())
            turns[1 - own].release()
        return answers

    with ThreadPoolExecutor(2) as pool:
        both = list(pool.map(lambda own: asyncio.run(write(own)), range(2)))
    assert both == [[False, *[True] * (2 * STREAK_MAX - 1)]] * 2
