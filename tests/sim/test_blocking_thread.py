"""Blocking code in virtual time."""

from __future__ import annotations

import threading
from asyncio import sleep as virtual_sleep  # runs in the virtual time of the loop under test

import pytest

from holdfast.sim.blocking_thread import BlockingThread, BlockingThreadClock, Killed
from holdfast.sim.clock import NodeClock
from holdfast.sim.draw import Draw
from holdfast.sim.loop import SimLoop


@pytest.fixture
def loop() -> SimLoop:
    return SimLoop(Draw(1, "test"))  # type: ignore[abstract]


def test_a_blocking_call_advances_virtual_time(loop: SimLoop) -> None:
    blocking_thread = BlockingThread()
    clock = BlockingThreadClock(NodeClock(loop), blocking_thread)

    def work() -> float:
        clock.pause(3600)
        return clock.monotonic()

    assert loop.run_until_complete(blocking_thread.run(work)) == 3600
    loop.close()


def test_an_error_is_raised_in_the_blocking_call(loop: SimLoop) -> None:
    blocking_thread = BlockingThread()

    async def fail() -> None:
        raise OSError("no")

    def work() -> str:
        with pytest.raises(OSError, match="no"):
            blocking_thread.call(fail)
        return "continued"

    assert loop.run_until_complete(blocking_thread.run(work)) == "continued"
    loop.close()


def test_a_killed_function_stops_and_leaves_no_thread(loop: SimLoop) -> None:
    blocking_thread = BlockingThread()
    clock = BlockingThreadClock(NodeClock(loop), blocking_thread)
    events: list[str] = []

    def work() -> None:
        try:
            events.append("started")
            clock.pause(100)
            events.append("continued")
        finally:
            with pytest.raises(Killed):
                clock.pause(1)  # cleanup has no effect

    async def main() -> None:
        running = loop.create_task(blocking_thread.run(work))
        await virtual_sleep(1)
        blocking_thread.kill()
        with pytest.raises(Killed):
            await running

    loop.run_until_complete(main())
    assert events == ["started"]
    assert blocking_thread.thread is not None
    assert blocking_thread.thread not in threading.enumerate()
    loop.close()
