"""Blocking code in virtual time."""

from __future__ import annotations

import threading
from asyncio import sleep as virtual_sleep  # the loop under test has a time of its own

import pytest

from holdfast.sim.blocking_thread import BlockingThread, BlockingThreadClock, Killed
from holdfast.sim.clock import NodeClock
from holdfast.sim.draw import Draw
from holdfast.sim.loop import SimLoop


@pytest.fixture
def loop() -> SimLoop:
    return SimLoop(Draw(1, "test"))  # type: ignore[abstract]


def test_blocking_code_lets_virtual_time_pass(loop: SimLoop) -> None:
    blocking_thread = BlockingThread()
    clock = BlockingThreadClock(NodeClock(loop), blocking_thread)

    def work() -> float:
        clock.pause(3600)
        return clock.monotonic()

    assert loop.run_until_complete(blocking_thread.run(work)) == 3600
    loop.close()


def test_an_error_of_a_call_is_raised_where_it_was_made(loop: SimLoop) -> None:
    blocking_thread = BlockingThread()

    async def fail() -> None:
        raise OSError("no")

    def work() -> str:
        with pytest.raises(OSError, match="no"):
            blocking_thread.call(fail)
        return "went on"

    assert loop.run_until_complete(blocking_thread.run(work)) == "went on"
    loop.close()


def test_a_killed_strand_goes_no_further_and_leaves_no_thread(loop: SimLoop) -> None:
    blocking_thread = BlockingThread()
    clock = BlockingThreadClock(NodeClock(loop), blocking_thread)
    seen: list[str] = []

    def work() -> None:
        try:
            seen.append("begun")
            clock.pause(100)
            seen.append("gone on")
        finally:
            with pytest.raises(Killed):
                clock.pause(1)  # what it cleans up reaches nothing

    async def main() -> None:
        running = loop.create_task(blocking_thread.run(work))
        await virtual_sleep(1)
        blocking_thread.kill()
        with pytest.raises(Killed):
            await running

    loop.run_until_complete(main())
    assert seen == ["begun"]
    assert blocking_thread.thread is not None
    assert blocking_thread.thread not in threading.enumerate()
    loop.close()
