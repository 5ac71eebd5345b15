"""A handler that blocks the event loop is logged while it blocks."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast import Status, Task, TaskQueue
from holdfast.clock import SystemClock
from holdfast.core.loop_block import LoopBlock
from holdfast.engine.watchdog import Watchdog
from tests.acceptance.apps.harness import eventually

SECONDS = 20.0


class Heard(logging.Handler):
    """Sets an event when a log line with these words is written, in any thread."""

    def __init__(self, words: str) -> None:
        super().__init__()
        self._words = words
        self.came = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        if self._words in record.getMessage():
            self.came.set()


class Noted:
    """A keeper that notes the blocks in which it is called."""

    def __init__(self) -> None:
        self.blocks: list[LoopBlock] = []
        self.twice = threading.Event()

    def keep(self, block: LoopBlock) -> bool:
        self.blocks.append(block)
        if len(self.blocks) == 2:
            self.twice.set()
        return True

    def end(self) -> None:
        pass


@pytest.fixture
def blocked() -> Iterator[Heard]:
    handler = Heard("has been blocked for")
    log = logging.getLogger("holdfast.engine")
    log.addHandler(handler)
    yield handler
    log.removeHandler(handler)


async def test_a_blocking_handler_is_named_while_it_blocks(
    tmp_path: Path, blocked: Heard, caplog: pytest.LogCaptureFixture
) -> None:
    queue = TaskQueue(f"sqlite:///{tmp_path}/queue.db", lease_seconds=0.6)

    async def rude(task: Task) -> bool:
        return blocked.came.wait(SECONDS)

    queue.register_handler("rude", rude, max_deaths=10)
    async with queue:
        handle = await queue.enqueue("rude")
        assert await handle.result(SECONDS) is True, "it was logged before the handler ended"
        assert (await handle.get()).status is Status.COMPLETED
    lines = [r.getMessage() for r in caplog.records if "has been blocked" in r.getMessage()]
    assert f"by the handler of task {handle} (rude)" in lines[0]
    assert "blocked.came.wait" in lines[0], "the stack"


async def test_the_end_of_a_block_is_logged(blocked: Heard) -> None:
    again = Heard("runs again")
    log = logging.getLogger("holdfast.engine")
    log.addHandler(again)
    keeper = Noted()
    watchdog = Watchdog(SystemClock(), lambda _: None, keeper, lease_seconds=0.3)
    watchdog.start()
    try:
        assert keeper.twice.wait(SECONDS), "leases are kept again and again"
        assert blocked.came.wait(SECONDS)
        async with asyncio.timeout(SECONDS):
            await asyncio.to_thread(again.came.wait)
        assert watchdog.blocks >= 1
        assert keeper.blocks[0].task_id == ""
        assert keeper.blocks[0].seconds < keeper.blocks[1].seconds
    finally:
        await watchdog.stop()
        log.removeHandler(again)


async def test_a_running_loop_is_not_reported() -> None:
    keeper = Noted()
    watchdog = Watchdog(
        SystemClock(), lambda _: None, keeper, lease_seconds=90.0, period_seconds=0.005
    )
    watchdog.start()
    turned = watchdog._turned_at
    await eventually(lambda: watchdog._turned_at > turned)
    await watchdog.stop()
    assert watchdog.blocks == 0
    assert not keeper.blocks
