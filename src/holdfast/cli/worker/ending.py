"""Ends a worker process: nothing left in it delays the exit for long.

Promises: once the queue has stopped, the process exits within `LEFT_SECONDS` with the exit code of the
stop, also when asyncio tasks ignore their cancellation, threads do not return (those of
`asyncio.to_thread` and any executor included) or the log cannot be written. The log names them. Never:
skips exit hooks (`atexit`) when nothing is left.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
import traceback
from collections.abc import Sequence
from concurrent.futures import thread as executors
from typing import Any, Final

LEFT_SECONDS: Final = 1.0
FRAMES_MAX: Final = 8
log = logging.getLogger("holdfast.worker")


def begin(code: int, loop: asyncio.AbstractEventLoop) -> None:
    """Gives the process `LEFT_SECONDS` to exit. Call it before the event loop is closed: closing waits
    without limit for tasks and threads, and so does the interpreter for threads."""
    _start_timer(_end, code, loop, asyncio.all_tasks(loop), _threads())


def _start_timer(function: Any, *args: object) -> None:
    timer = threading.Timer(LEFT_SECONDS, function, args)
    timer.daemon = True
    timer.start()


def _end(
    code: int,
    loop: asyncio.AbstractEventLoop,
    tasks: set[asyncio.Task[Any]],
    threads: Sequence[threading.Thread],
) -> None:
    """Exits the process if something is left in it."""
    if loop.is_closed() and not _threads():
        return
    # A remaining thread may hold the lock of the log.
    _start_timer(os._exit, code)
    try:
        left = [_describe_task(task) for task in tasks if not task.done()]
        frames = sys._current_frames()
        left += [text for thread in threads if (text := _describe_thread(thread, frames))]
        log.warning(
            "still running %g s after the stop; the process ends without waiting for them:\n%s",
            LEFT_SECONDS,
            "\n".join(left),
        )
        logging.shutdown()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def _threads() -> list[threading.Thread]:
    """Threads that the interpreter waits for at exit."""
    main = threading.main_thread()
    return [t for t in threading.enumerate() if t is not main and not t.daemon]


def _describe_task(task: asyncio.Task[Any]) -> str:
    coroutine = getattr(task.get_coro(), "__qualname__", "?")
    return f"  {task.get_name()} ({coroutine}) ignores its cancellation"


def _describe_thread(thread: threading.Thread, frames: dict[int, Any]) -> str:
    """Name and stack of a thread; an empty string when it has ended or is an idle executor thread."""
    frame = frames.get(thread.ident or 0)
    if frame is None or frame.f_code.co_filename == executors.__file__:
        return ""
    stack = "".join(traceback.format_stack(frame)[-FRAMES_MAX:]).rstrip("\n")
    return f"  thread {thread.name}, at\n{stack}"
