"""The simulator's event loop: time, order, crashes."""

from __future__ import annotations

import asyncio
import contextvars
from asyncio import sleep as virtual_sleep  # runs in the virtual time of the loop under test
from collections.abc import AsyncIterator

import pytest

from holdfast.sim.draw import Draw
from holdfast.sim.loop import NODE, SimLoop, Stuck


def make(seed: int = 1) -> SimLoop:
    return SimLoop(Draw(seed, "test"))  # type: ignore[abstract]


def on(node: str) -> contextvars.Context:
    context = contextvars.Context()
    context.run(NODE.set, node)
    return context


def test_time_jumps_to_the_next_timer() -> None:
    loop = make()

    async def main() -> float:
        await asyncio.gather(virtual_sleep(3600), virtual_sleep(86_400))
        return loop.time()

    assert loop.run_until_complete(main()) == 86_400
    loop.close()


def test_within_a_node_callbacks_keep_their_order() -> None:
    loop = make()
    events: list[tuple[str, int]] = []

    async def main() -> None:
        for n in range(50):
            for node in ("a", "b"):
                loop.call_soon(events.append, (node, n), context=on(node))
        await virtual_sleep(1)

    loop.run_until_complete(main())
    for node in ("a", "b"):
        assert [n for name, n in events if name == node] == list(range(50))
    assert events != sorted(events, key=lambda event: event[1])  # nodes are interleaved at random
    loop.close()


def test_the_seed_determines_the_order() -> None:
    def order(seed: int) -> list[str]:
        loop = make(seed)
        events: list[str] = []

        async def main() -> None:
            for _ in range(40):
                for node in ("a", "b", "c"):
                    loop.call_soon(events.append, node, context=on(node))
            await virtual_sleep(1)

        loop.run_until_complete(main())
        loop.close()
        return events

    assert order(1) == order(1)
    assert order(1) != order(2)


def test_a_crash_runs_no_finally() -> None:
    loop = make()
    events: list[str] = []

    async def victim() -> None:
        try:
            events.append("started")
            await virtual_sleep(100)
            events.append("continued")
        finally:
            events.append("finally")

    async def main() -> None:
        context = on("v")
        context.run(loop.create_task, victim())
        await virtual_sleep(1)
        loop.forget("v")
        await virtual_sleep(1000)
        assert events == ["started"]

    loop.run_until_complete(main())
    loop.close()


def test_timers_of_a_frozen_node_fire_late() -> None:
    loop = make()
    woken: list[float] = []

    async def sleeper() -> None:
        await virtual_sleep(5)
        woken.append(loop.time())

    async def main() -> None:
        on("f").run(loop.create_task, sleeper())
        await virtual_sleep(1)
        loop.freeze("f", 60)
        await virtual_sleep(200)

    loop.run_until_complete(main())
    assert woken == [61]
    loop.close()


def test_a_node_that_is_thawed_early_continues_at_once() -> None:
    """Overdue timers fire at once; kept seed 10431."""
    loop = make()
    woken: list[float] = []

    async def sleeper() -> None:
        await virtual_sleep(5)
        woken.append(loop.time())
        await virtual_sleep(5)
        woken.append(loop.time())

    async def main() -> None:
        on("f").run(loop.create_task, sleeper())
        await virtual_sleep(1)
        loop.freeze("f", 60)
        await virtual_sleep(20)
        loop.thaw_all()
        await virtual_sleep(100)

    loop.run_until_complete(main())
    assert woken == [21, 26]
    loop.close()


def test_timers_do_not_count_the_time_of_a_suspend() -> None:
    loop = make()
    woken: list[float] = []

    async def sleeper() -> None:
        await virtual_sleep(5)
        woken.append(loop.time())

    async def main() -> None:
        on("f").run(loop.create_task, sleeper())
        await virtual_sleep(1)
        loop.suspend("f", 60)
        await virtual_sleep(200)

    loop.run_until_complete(main())
    assert woken == [65]
    loop.close()


def test_a_machine_that_is_woken_early_continues_its_timers() -> None:
    loop = make()
    woken: list[float] = []

    async def sleeper() -> None:
        await virtual_sleep(5)
        woken.append(loop.time())

    async def main() -> None:
        on("f").run(loop.create_task, sleeper())
        await virtual_sleep(1)
        loop.suspend("f", 60)
        await virtual_sleep(20)
        assert loop.wake("f") == 40
        await virtual_sleep(200)

    loop.run_until_complete(main())
    assert woken == [25]
    loop.close()


def test_a_run_without_events_raises_stuck() -> None:
    loop = make()

    async def main() -> None:
        await asyncio.Event().wait()

    with pytest.raises(Stuck, match="nothing is left to happen"):
        loop.run_until_complete(main())
    loop.close()


async def _next(items: AsyncIterator[int]) -> int:
    return await anext(items)


def test_closing_closes_iterators_that_wait_in_their_end() -> None:
    """Left to the garbage collector, they complain in some later test."""
    loop = make()
    ended: list[str] = []

    async def items() -> AsyncIterator[int]:
        try:
            yield 1
            yield 2
        finally:
            await virtual_sleep(1)
            ended.append("not reached")

    left_open = items()

    async def main() -> int:
        return await anext(left_open)

    assert loop.run_until_complete(main()) == 1
    loop.close()
    with pytest.raises(StopAsyncIteration):
        asyncio.run(_next(left_open))
    assert ended == []


def test_closing_makes_no_other_loop() -> None:
    """A thrown away coroutine gathers tasks in its `finally`. Without a loop in the thread, asyncio would
    make another one, or from Python 3.14 on refuse."""
    loop = make()
    used: list[asyncio.AbstractEventLoop] = []

    async def waiting() -> None:
        try:
            await virtual_sleep(1_000)
        finally:
            used.append(asyncio.gather(return_exceptions=True).get_loop())

    async def main() -> None:
        loop.create_task(waiting(), context=on("a"))
        await virtual_sleep(1)

    loop.run_until_complete(main())
    loop.close()
    assert used == [loop]
