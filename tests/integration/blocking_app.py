"""An application whose handler blocks the event loop of its worker until a test opens a pipe."""

from __future__ import annotations

import os
from pathlib import Path

from holdfast import TaskQueue

queue = TaskQueue(os.environ.get("BLOCKING_URL", "sqlite://"), lease_seconds=0.6)


@queue.task(timeout=None)
async def hold(pipe: str) -> str:
    """Blocks until the pipe has a writer, and reads what that says."""
    return Path(pipe).read_text()  # noqa: ASYNC240 - it has to block


@queue.task(timeout=0.05, max_deaths=1)
async def hold_briefly(pipe: str) -> str:
    """The same, with a timeout that ends before the test opens the pipe."""
    return Path(pipe).read_text()  # noqa: ASYNC240 - it has to block
