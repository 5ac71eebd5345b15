"""Plain handlers in daemon threads.

Promises: a thread runs one call at a time and is reused. A call that never returns occupies its thread, but
neither a shutdown nor the exit of the process waits for it.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from typing import Any, NamedTuple


class ThreadCall(NamedTuple):
    function: Callable[[], Any]
    future: asyncio.Future[Any]
    loop: asyncio.AbstractEventLoop


class ThreadHost:
    """Starts a thread when none is idle. The size of the worker pool bounds the number of calls."""

    def __init__(self) -> None:
        self._idle: list[queue.SimpleQueue[ThreadCall | None]] = []
        self._lock = threading.Lock()
        self._started = 0

    def submit(self, function: Callable[[], Any]) -> asyncio.Future[Any]:
        """Runs the function in a thread. The future resolves in the event loop."""
        loop = asyncio.get_running_loop()
        call = ThreadCall(function, loop.create_future(), loop)
        with self._lock:
            inbox = self._idle.pop() if self._idle else self._start()
        inbox.put(call)
        return call.future

    def close(self) -> None:
        """Ends idle threads. Busy threads end after their call, or with the process."""
        with self._lock:
            for inbox in self._idle:
                inbox.put(None)
            self._idle.clear()

    def _start(self) -> queue.SimpleQueue[ThreadCall | None]:
        inbox: queue.SimpleQueue[ThreadCall | None] = queue.SimpleQueue()
        self._started += 1
        name = f"holdfast-handler-{self._started}"
        threading.Thread(target=self._serve, args=(inbox,), name=name, daemon=True).start()
        return inbox

    def _serve(self, inbox: queue.SimpleQueue[ThreadCall | None]) -> None:
        while (call := inbox.get()) is not None:
            value, error = None, None
            try:
                value = call.function()
            except BaseException as raised:
                error = raised
            with self._lock:
                self._idle.append(inbox)
            if not call.loop.is_closed():
                call.loop.call_soon_threadsafe(_resolve, call.future, value, error)
            del call, value, error


def _resolve(future: asyncio.Future[Any], value: Any, error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(value)
    elif isinstance(error, StopIteration):
        # A future cannot hold a StopIteration.
        future.set_exception(RuntimeError(f"the handler raised {error!r}"))
    else:
        future.set_exception(error)
