"""One worker process: runs a queue until it is told to stop.

Promises: exit code 0 after a graceful stop, 130 after a fast one, 1 when the engine has given up; uses
uvloop when it is installed. A handler that does not heed its cancellation does not keep the process: it
ends `LEFT_SECONDS` after the queue has stopped. Never: swallows why the engine ended.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Callable
from typing import Any, Final, NoReturn

from holdfast.app import sqlite_path
from holdfast.cli.problem import report
from holdfast.cli.worker.load import load_queue
from holdfast.cli.worker.stops import INTERRUPTED, PARENT_VARIABLE, Stops
from holdfast.core.address import shown_url
from holdfast.errors import BadConfig, EngineFailed
from holdfast.queue.queue import Queue

LEFT_SECONDS: Final = 1.0
log = logging.getLogger("holdfast.worker")


def serve(target: str, settings: dict[str, Any]) -> int:
    """Loads the queue and runs it in this process."""
    queue = load_queue(target)
    if PARENT_VARIABLE in os.environ:
        _check_shared(target, queue)
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(_run(target, queue, settings))


def _check_shared(target: str, queue: Queue) -> None:
    """One of many processes: each would have a store in memory of its own."""
    url = getattr(queue, "url", "")
    if url.startswith("sqlite:") and not sqlite_path(url):
        raise BadConfig(
            f"the store of '{target}' is in memory, where only its own process sees it: give the queue the "
            "URL of a file or of PostgreSQL, or run one process"
        )


async def _run(target: str, queue: Queue, settings: dict[str, Any]) -> int:
    stops = Stops()
    await queue.start(**settings)
    stats = await queue.get_stats()
    if not stats.registered_handlers:
        await queue.stop()
        raise BadConfig(f"'{target}' has no tasks: define some with @queue.task in its module")
    log.info(
        "ready: pid %d, store %s, tasks %s",
        os.getpid(),
        shown_url(getattr(queue, "url", "?")),
        ", ".join(stats.registered_handlers),
    )
    failure = await _until_stopped(queue, stops)
    await _stop(queue, stops)
    code = INTERRUPTED if stops.fast.is_set() else 0
    if failure is None:
        log.info("stopped")
    if await _is_anything_left():
        _exit(code if failure is None else report(failure, []))
    if failure is not None:
        raise failure
    return code


async def _is_anything_left() -> bool:
    """Whether a task goes on after one more cancellation: the end of the event loop would wait for it
    for ever."""
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    if left:
        _, left = await asyncio.wait(left, timeout=LEFT_SECONDS)
    if left:
        log.warning(
            "%d handlers do not heed their cancellation: the process ends without them", len(left)
        )
    return bool(left)


def _exit(code: int) -> NoReturn:
    """Without waiting for anything."""
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


async def _until_stopped(queue: Queue, stops: Stops) -> EngineFailed | None:
    """Why it ends: None when somebody wants it."""
    asked = asyncio.create_task(stops.gentle.wait())
    failed = asyncio.create_task(queue.wait_failed())
    done, pending = await asyncio.wait({asked, failed}, return_when=asyncio.FIRST_COMPLETED)
    for task in pending:
        task.cancel()
    return failed.result() if failed in done else None


async def _stop(queue: Queue, stops: Stops) -> None:
    """Gently, unless a second signal comes."""
    stopping = asyncio.create_task(queue.stop())
    fast = asyncio.create_task(stops.fast.wait())
    await asyncio.wait({stopping, fast}, return_when=asyncio.FIRST_COMPLETED)
    fast.cancel()
    if not stopping.done():
        queue.hurry()
    await stopping


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop
