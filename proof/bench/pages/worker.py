"""A queue with one type of task, for the gateway of a measurement to accept it."""

from __future__ import annotations

import os

from holdfast import TaskQueue

URL_VARIABLE = "HOLDFAST_URL"
queue = TaskQueue(os.environ[URL_VARIABLE], max_workers=1)


@queue.task(name="pixel")
async def pixel() -> None:
    """Does nothing. The measurement delays its tasks, so that none of them runs."""
