"""An event loop in a thread of its own, for callers that block.

Promises: any thread may call; an error of the call is raised where it was called; closing waits for the
loop's end. Never: runs the caller's own code in the loop.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Awaitable, Callable
from typing import TypeVar

from holdfast.errors import NotRunning

T = TypeVar("T")


class Portal:
    """Started when first needed."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._closed = False

    def call(self, make: Callable[[], Awaitable[T]]) -> T:
        """Waits for the answer. A caller that is interrupted while it waits cancels the call."""
        future = self.submit(make)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def submit(self, make: Callable[[], Awaitable[T]]) -> concurrent.futures.Future[T]:
        """Starts it and does not wait."""
        loop = self._started()

        async def answer() -> T:
            return await make()

        return asyncio.run_coroutine_threadsafe(answer(), loop)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            loop, thread = self._loop, self._thread
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()
            self._loop = self._thread = None

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._closed:
                raise NotRunning(f"{self._name} was closed: make a new one")
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=self._loop.run_forever, name=f"holdfast-{self._name}", daemon=True
                )
                self._thread.start()
            return self._loop
