"""The end of a worker process, which nothing that is left in it delays for long.

Promises: once the queue has stopped, the process ends within `LEFT_SECONDS` and with the exit code of the
stop, also when tasks of the event loop ignore their cancellation, when threads do not return (those of
`asyncio.to_thread` and of any executor included) and when the log cannot be written. The log names them.
Never: cuts off exit hooks (`atexit`) of a process in which nothing else is left.
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
    """From now on the process has `LEFT_SECONDS` for its end. To be called before the event loop is closed:
    that waits for its tasks and its threads without limit, and so does the interpreter for threads."""
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
    """Ends the process if something keeps it."""
    if loop.is_closed() and not _threads():
        return
    # A thread that is left may hold the lock of the log.
    _start_timer(os._exit, code)
    try:
        left = [_shown_task(task) for task in tasks if not task.done()]
        frames = sys._current_frames()
        left += [text for thread in threads if (text := _shown_thread(thread, frames))]
        log.warning(
            "still there %g s after the stop; the process ends without waiting for them:\n%s",
            LEFT_SECONDS,
            "\n".join(left),
        )
        logging.shutdown()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def _threads() -> list[threading.Thread]:
    """Those that the interpreter waits for at its end."""
    main = threading.main_thread()
    return [each for each in threading.enumerate() if each is not main and not each.daemon]


def _shown_task(task: asyncio.Task[Any]) -> str:
    coroutine = getattr(task.get_coro(), "__qualname__", "?")
    return f"  {task.get_name()} ({coroutine}) ignores its cancellation"


def _shown_thread(thread: threading.Thread, frames: dict[int, Any]) -> str:
    """Its name and where it stands; nothing when it has ended or is an idle one of an executor."""
    frame = frames.get(thread.ident or 0)
    if frame is None or frame.f_code.co_filename == executors.__file__:
        return ""
    stack = "".join(traceback.format_stack(frame)[-FRAMES_MAX:]).rstrip("\n")
    return f"  thread {thread.name}, which stands at\n{stack}"
